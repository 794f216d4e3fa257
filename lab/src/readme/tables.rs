//! The README's tables: what each row shows, and of whom.

use super::table::{At, Peers, Place, Row, Shown, Table};
use At::{Number, Word};

/// All tables, in the README's order.
pub const ALL: &[Table] = &[MAPS, STORES, BEYOND_MEMORY, SERVERS, INNODB];

/// Beginnings of peers' names, and what tables call them.
pub const PEERS: &[Shown] = &[
    ("absl::btree_map", "Abseil's B-tree"),
    ("bf-tree", "`bf-tree`"),
    ("blart", "`blart`"),
    ("concurrent-map", "`concurrent-map`"),
    ("congee", "`congee`"),
    ("crossbeam-skiplist", "`crossbeam-skiplist`"),
    ("indexset", "`indexset`"),
    ("lmdb", "LMDB"),
    ("masstree crate", "`masstree` crate"),
    ("rart", "`rart`"),
    ("redis", "Redis, nothing logged"),
    ("redis aof", "Redis"),
    ("rocksdb", "RocksDB"),
    ("scc TreeIndex", "`scc`"),
    ("sqlite", "SQLite"),
    ("std BTreeMap", "std `BTreeMap`"),
    ("std::map", "`std::map`"),
    ("valkey", "Valkey, nothing logged"),
    ("valkey aof", "Valkey"),
];

const MAPS: Table = Table {
    name: "maps",
    peers: "best peer",
    unit: "Mops/s",
    alone: false,
    rows: &[
        integers("random integers, 1 thread: get", "get"),
        integers("… insert", "insert"),
        integers("… scan of 50", "scan 50"),
        integers("… remove", "remove"),
        integers("… resident bytes a key", "memory"),
        shared("random integers, 2 threads: get", "sparse-u64", "get"),
        shared("… insert", "sparse-u64", "insert"),
        shared("… scan of 50", "sparse-u64", "scan 50"),
        shared("decimals, 2 threads: get", "decimal", "get"),
        shared("… insert", "decimal", "insert"),
        shared("… scan of 50", "decimal", "scan 50"),
        text("words: insert", "words", INSERT),
        text("… Zipf lookup", "words", LOOKUP),
        text("… Zipf scan of 1 to 50", "words", SCAN),
        text("file paths: insert", "paths", INSERT),
        text("… Zipf lookup", "paths", LOOKUP),
        text("… Zipf scan of 1 to 50", "paths", SCAN),
    ],
};

/// Random integers and one thread.
const fn integers(workload: &'static str, column: &'static str) -> Row {
    Row {
        workload,
        place: Place {
            experiment: "masstree/operations",
            at: &[("threads", Number(1.0))],
            x: Some("sparse-u64"),
        },
        column,
        ours: &[("matryoshka flat u64", "Matryoshka")],
        peers: Peers::Best,
    }
}

/// Two threads.
const fn shared(workload: &'static str, keys: &'static str, column: &'static str) -> Row {
    Row {
        workload,
        place: Place {
            experiment: "masstree/operations",
            at: &[("threads", Number(2.0))],
            x: Some(keys),
        },
        column,
        ours: &[("hedgerow inline", "Masstree")],
        peers: Peers::Best,
    }
}

type Operation = &'static [(&'static str, At)];
const INSERT: Operation = &[("operation", Word("insert the last tenth"))];
const LOOKUP: Operation = &[("operation", Word("zipf lookup"))];
const SCAN: Operation = &[("operation", Word("zipf scan of 1 to 50"))];

/// Keys that are text, in the better of our two maps for them.
const fn text(workload: &'static str, keys: &'static str, operation: Operation) -> Row {
    Row {
        workload,
        place: Place {
            experiment: "btrees/fig15",
            at: operation,
            x: Some(keys),
        },
        column: "operations",
        ours: &[
            ("hedgerow inline", "Masstree"),
            ("btree adaptive", "B-tree"),
        ],
        peers: Peers::Best,
    }
}

/// How often engines sync, how large the data is beside the cache, and threads.
type Commits = &'static [(&'static str, At)];

const STORES: Table = Table {
    name: "stores",
    peers: "best peer",
    unit: "kops/s",
    alone: false,
    rows: &[
        store("load", IN_CACHE, "load"),
        store("get", IN_CACHE, "get"),
        store("scan of 50", IN_CACHE, "scan 50"),
        store("update", IN_CACHE, "update"),
        store("YCSB A", IN_CACHE, "ycsb/a"),
        store("YCSB C", IN_CACHE, "ycsb/c"),
        store("YCSB E", IN_CACHE, "ycsb/e"),
        store("delete-heavy", IN_CACHE, "delete-heavy"),
        store("update, each commit synced, 1 thread", SYNCED, "update"),
        store(
            "update, each commit synced, 8 threads",
            SYNCED_BY_8,
            "update",
        ),
        store(
            "YCSB A, each commit synced, 8 threads",
            SYNCED_BY_8,
            "ycsb/a",
        ),
        store(
            "load in batches, each synced, 8 threads",
            SYNCED_BY_8,
            "load in batches",
        ),
        store("first answer after `kill -9`", IN_CACHE, REOPEN),
    ],
};

const REOPEN: &str = "reopen after kill -9";

const IN_CACHE: Commits = &[
    ("data / cache", Number(0.5)),
    ("commits", Word("periodic")),
    ("threads", Number(1.0)),
];
const SYNCED: Commits = &[
    ("data / cache", Number(0.5)),
    ("commits", Word("sync")),
    ("threads", Number(1.0)),
];
const SYNCED_BY_8: Commits = &[
    ("data / cache", Number(0.5)),
    ("commits", Word("sync")),
    ("threads", Number(8.0)),
];

const BEYOND_MEMORY: Table = Table {
    name: "beyond-memory",
    peers: "best peer",
    unit: "kops/s",
    alone: true,
    rows: &[
        store("update, synced", BEYOND_SYNCED, "update"),
        store("YCSB A, synced", BEYOND_SYNCED, "ycsb/a"),
        store("YCSB B, synced", BEYOND_SYNCED, "ycsb/b"),
        store("YCSB E, synced", BEYOND_SYNCED, "ycsb/e"),
        store("delete-heavy, synced", BEYOND_SYNCED, "delete-heavy"),
        store("get, not synced", BEYOND, "get"),
        store("scan of 50, not synced", BEYOND, "scan 50"),
        store("YCSB C, not synced", BEYOND, "ycsb/c"),
        store("load in batches, not synced", BEYOND, "load in batches"),
        store("update, not synced", BEYOND, "update"),
        store("YCSB A, not synced", BEYOND, "ycsb/a"),
        store("YCSB B, not synced", BEYOND, "ycsb/b"),
        store("YCSB E, not synced", BEYOND, "ycsb/e"),
        store("delete-heavy, not synced", BEYOND, "delete-heavy"),
        store(
            "first answer after `kill -9`, synced",
            BEYOND_SYNCED,
            REOPEN,
        ),
    ],
};

const BEYOND: Commits = &[
    ("data / cache", Number(8.0)),
    ("commits", Word("periodic")),
    ("threads", Number(1.0)),
];
const BEYOND_SYNCED: Commits = &[
    ("data / cache", Number(8.0)),
    ("commits", Word("sync")),
    ("threads", Number(8.0)),
];

/// Durable engines; ours is the one whose memory can be limited.
const fn store(workload: &'static str, at: Commits, column: &'static str) -> Row {
    Row {
        workload,
        place: Place {
            experiment: "btrees/durable",
            at,
            x: None,
        },
        column,
        ours: &[("hedgerow btree", "")],
        peers: Peers::Best,
    }
}

const SERVERS: Table = Table {
    name: "servers",
    peers: "best peer",
    unit: "kops/s",
    alone: false,
    rows: &[
        resp("GET, 64 in flight", "GET pipelined"),
        resp("SET, 64 in flight", "SET pipelined"),
        resp("GET, 50 connections, one request each", "GET x50"),
        resp("SET, 50 connections, one request each", "SET x50"),
        resp("GET, one connection, median", "GET p50"),
        resp("SET, one connection, median", "SET p50"),
        scan(
            "scan of 50 keys, 64 in flight; peers' is `ZRANGEBYLEX`",
            &[("hedgerow server, keys alone", "")],
        ),
        scan(
            "scan of 50 keys and values, 64 in flight; peers' is of keys alone",
            &[("hedgerow server", "")],
        ),
        memcached("memcached get, 64 in flight", "GET pipelined"),
        memcached("memcached set, 64 in flight", "SET pipelined"),
        memcached("memcached get, 50 connections, one request each", "GET x50"),
        memcached("memcached set, 50 connections, one request each", "SET x50"),
        memcached("memcached get, one connection, median", "GET p50"),
        memcached("memcached set, one connection, median", "SET p50"),
        resp("resident bytes a record", "memory"),
        Row {
            workload: "memory with 10,000 idle connections",
            place: Place {
                experiment: "masstree/server-idle",
                at: &[("connections", Number(10_000.0))],
                x: None,
            },
            column: "resident",
            ours: &[("hedgerow server", "")],
            peers: Peers::Best,
        },
    ],
};

/// Redis's protocol.
const fn resp(workload: &'static str, column: &'static str) -> Row {
    asked(
        "masstree/server",
        &[("hedgerow server", "")],
        workload,
        column,
    )
}

/// Memcached's protocol.
const fn memcached(workload: &'static str, column: &'static str) -> Row {
    let ours = &[("hedgerow server, memcached protocol", "")];
    asked("masstree/server-memcached", ours, workload, column)
}

const fn asked(
    experiment: &'static str,
    ours: &'static [Shown],
    workload: &'static str,
    column: &'static str,
) -> Row {
    Row {
        workload,
        place: Place {
            experiment,
            at: &[],
            x: None,
        },
        column,
        ours,
        peers: Peers::Best,
    }
}

const fn scan(workload: &'static str, ours: &'static [Shown]) -> Row {
    Row {
        workload,
        place: Place {
            experiment: "masstree/server-scans",
            at: &[("pairs", Number(50.0))],
            x: None,
        },
        column: "scan 50 pipelined",
        ours,
        peers: Peers::Best,
    }
}

const INNODB: Table = Table {
    name: "innodb",
    peers: "InnoDB",
    unit: "µs/operation",
    alone: false,
    rows: &[
        innodb("8 connections: insert", BY_8, "insert, server time"),
        innodb("… read", BY_8, "read, server time"),
        innodb("… update", BY_8, "update, server time"),
        innodb("… delete", BY_8, "delete, server time"),
        innodb("96 connections: insert", BY_96, "insert, server time"),
        innodb("… read", BY_96, "read, server time"),
        innodb("… update", BY_96, "update, server time"),
        innodb("… delete", BY_96, "delete, server time"),
    ],
};

type Connections = &'static [(&'static str, At)];
const BY_8: Connections = &[("connections", Number(8.0))];
const BY_96: Connections = &[("connections", Number(96.0))];

/// Both with a sync at each commit.
const fn innodb(workload: &'static str, at: Connections, column: &'static str) -> Row {
    let row = Row {
        workload,
        place: Place {
            experiment: "bwtree/durability",
            at,
            x: None,
        },
        column,
        ours: &[("hedgerow bwtree sync", "")],
        peers: Peers::Best,
    };
    row.beside("mariadb handlersocket", "")
}
