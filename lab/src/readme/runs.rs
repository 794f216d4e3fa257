//! The runs that the README's tables need: what `hedgerow-lab run readme` does.

/// The name that stands for all of them.
pub const GROUP: &str = "readme";

/// Experiments that run with the same options. An option of the command line takes the place of
/// the one here.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    /// Names of experiments.
    pub experiments: &'static [&'static str],
    /// Records at scale `small`, instead of that scale's number.
    pub keys: Option<usize>,
    /// Only contenders whose name contains one of these; empty for all.
    pub only: &'static [&'static str],
    /// Of peers only those whose name contains one of these; empty for all.
    pub peers: &'static [&'static str],
    /// Only points whose position or parameters contain one of these; empty for all.
    pub points: &'static [&'static str],
}

/// The runs, in the order of the README's tables.
pub const PARTS: &[Part] = &[
    // Who was among the first two of a row, in the form that suits the keys best, where a row
    // needs them: integers by one thread and two (whose keys include decimals).
    Part {
        experiments: &["masstree/operations"],
        keys: Some(10_000_000),
        only: &[
            "matryoshka flat u64",
            "hedgerow inline",
            "JudyL",
            "absl::btree_map u64",
            "std BTreeMap",
            "indexset u64",
            "indexset concurrent u64",
            "indexset concurrent short",
            "masstree crate",
            "concurrent-map u64",
            "concurrent-map short",
            "congee",
        ],
        peers: &[],
        points: &["sparse-u64", "2"],
    },
    // `hedgerow-lab fetch words paths` brings the keys. All seven million paths take two hours.
    Part {
        experiments: &["btrees/fig15"],
        keys: Some(1_000_000),
        only: &[
            "hedgerow inline",
            "btree adaptive",
            "JudySL",
            "std BTreeMap",
            "masstree crate",
            "blart",
            "scc TreeIndex",
            "indexset",
        ],
        peers: &[],
        points: &["words", "paths"],
    },
    // RocksDB, which is killed in a round beyond memory, takes no further part in its run. So it
    // has one of its own: before that of all, which counts where both have as many rounds.
    Part {
        experiments: &["btrees/durable"],
        keys: None,
        only: &[],
        peers: &["rocksdb"],
        points: &[],
    },
    // Ten million records of 1,000 bytes do not fit the memory of a common machine.
    Part {
        experiments: &["btrees/durable"],
        keys: None,
        only: &[],
        peers: &["rocksdb", "redb", "fjall", "lmdb"],
        points: &[],
    },
    Part {
        experiments: &[
            "masstree/server",
            "masstree/server-memcached",
            "masstree/server-scans",
            "masstree/server-idle",
        ],
        keys: Some(10_000_000),
        only: &[],
        peers: &[],
        points: &[],
    },
    // The same question as in "InnoDB and the Bw-tree", which starts from an empty server.
    Part {
        experiments: &["bwtree/durability"],
        keys: Some(8_000),
        only: &["hedgerow bwtree", "mariadb handlersocket"],
        peers: &[],
        points: &[],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments;
    use crate::readme::table::At;
    use crate::readme::tables;

    #[test]
    fn every_row_has_a_run_with_those_that_it_shows() {
        for row in tables::ALL.iter().flat_map(|table| table.rows) {
            let name = row.place.experiment;
            experiments::find(name).expect("an experiment");
            let parts = PARTS.iter().filter(|part| part.experiments.contains(&name));
            let mut parts = parts.peekable();
            assert!(parts.peek().is_some(), "{name} is in no run");
            for part in parts {
                let lets = |parts: &[&str], name: &str| {
                    parts.is_empty() || parts.iter().any(|part| name.contains(part))
                };
                let words = row.place.at.iter().map(|(_, at)| match at {
                    At::Number(number) => number.to_string(),
                    At::Word(word) => (*word).to_owned(),
                });
                let mut words = words.chain(row.place.x.map(str::to_owned)).peekable();
                assert!(
                    words.peek().is_none() || words.any(|word| lets(part.points, &word)),
                    "{}",
                    row.workload
                );
                let runs = |who| lets(part.only, who);
                assert!(
                    row.ours.iter().all(|(who, _)| runs(who)),
                    "{}",
                    row.workload
                );
            }
        }
    }
}
