//! Statistics of every index, and of checkpoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use hedgerow::{Db, IndexKind};

use crate::failing_disk::INDEXES;
use crate::support::monitoring::{field, info, metrics, number, options, parse, stats};
use crate::support::*;

fn over(index: IndexKind) -> Started {
    let dir = tempfile::tempdir().unwrap();
    let builder = Db::builder().index(index);
    // A budget of pages. What indexes in memory take is counted over the whole process, and so over
    // the tests beside this one.
    let builder = match index {
        IndexKind::BTree => builder.memory_limit(Some(16 << 20)),
        _ => builder,
    };
    let db = Arc::new(builder.open(dir.path()).unwrap());
    let server = start(Arc::clone(&db), options()).unwrap();
    Started { server, db, dir }
}

#[test]
fn metrics_are_what_prometheus_takes_and_tell_all_of_every_index() {
    for kind in INDEXES {
        let started = over(kind);
        let mut client = started.client();
        for i in 0..2000 {
            client.run(&format!("SET key{i:05} value"));
        }
        client.run("GET key00001");
        client.run("INCR key00001");
        client.run("SELECT 3");
        client.run("SET number_1 b");
        let awkward = started.db.keyspace("qu\"o\\te").unwrap();
        awkward.put(b"some key", b"v").unwrap();
        // What a tick did is counted at its end, behind its replies: the next tick comes later.
        client.run("PING");
        let families = parse(&metrics(&started));
        let labels = |keyspace: &str| format!("keyspace=\"{keyspace}\",index=\"{}\"", kind.name());
        let of = |name: &str, labels: &str| {
            let family = families.get(name).unwrap_or_else(|| panic!("no {name}"));
            let key = (name.to_owned(), labels.to_owned());
            *family
                .samples
                .get(&key)
                .unwrap_or_else(|| panic!("no {key:?}"))
        };
        assert_eq!(of("hedgerow_index_rows", &labels("default")), 2000.0);
        let default = format!("index=\"{}\"", kind.name());
        assert_eq!(of("hedgerow_default_index", &default), 1.0);
        assert_eq!(of("hedgerow_index_rows", &labels("db3")), 1.0);
        assert_eq!(of("hedgerow_index_rows", &labels("qu\\\"o\\\\te")), 1.0);
        let keyspace = started.db.keyspace("default").unwrap();
        let counters = keyspace.index_counters().unwrap();
        assert!(counters.iter().count() >= 4, "{}", kind.name());
        for counter in counters.iter() {
            of(
                &format!("hedgerow_index_{}_total", counter.name),
                &labels("default"),
            );
        }
        let shape = keyspace.index_statistics_in_memory().unwrap();
        assert!(shape.is_some(), "all pages are in memory");
        for number in shape.iter().flat_map(|shape| shape.iter()) {
            if counters.get(number.name).is_none() {
                of(
                    &format!("hedgerow_index_{}", number.name),
                    &labels("default"),
                );
            }
        }
        for statistic in started.db.statistics().iter() {
            of(&format!("hedgerow_engine_{}", statistic.name), "");
        }
        assert_eq!(of("hedgerow_commands_total", "command=\"set\""), 2001.0);
        assert_eq!(of("hedgerow_commands_total", "command=\"get\""), 1.0);
        assert_eq!(of("hedgerow_error_replies_total", "code=\"ERR\""), 1.0);
        assert!(of("process_resident_memory_bytes", "") > 1e6);
        // The same in INFO and in memcached's terms.
        let section = info(&mut client, "index");
        let line = field(&section, "index_default").unwrap_or_else(|| panic!("{section}"));
        let start = format!("index={},rows=2000,", kind.name());
        assert!(line.starts_with(&start), "{line}");
        let shape = shape.iter().flat_map(|shape| shape.iter());
        for number in counters.iter().chain(shape) {
            assert!(line.contains(&format!(",{}=", number.name)), "{line}");
        }
        let stats = stats(&started, "index");
        assert_eq!(stats["default:index"], kind.name());
        assert_eq!(stats["default:rows"], "2000");
    }
}

#[test]
fn a_large_index_is_walked_by_a_thread_beside() {
    let started = over(IndexKind::Masstree);
    let keyspace = started.db.keyspace("default").unwrap();
    for i in 0..20_000u32 {
        keyspace.put(&i.to_be_bytes(), b"v").unwrap();
    }
    let mut client = started.client();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    loop {
        let section = info(&mut client, "index");
        let line = field(&section, "index_default").unwrap();
        assert!(line.starts_with("index=masstree,rows=20000"), "{line}");
        if line.contains(",keys=20000,") {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{line}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn checkpoints_of_other_processes_are_not_counted() {
    let started = Started::new(options());
    let mut client = started.client();
    client.run("SET a 1");
    let all = info(&mut client, "everything");
    // A checkpoint that another process took is none of this one's.
    assert_eq!(number(&all, "checkpoints_total"), 0.0);
    assert_eq!(number(&all, "checkpoint_bytes"), 0.0);
    client.run("SAVE");
    let persistence = info(&mut client, "persistence");
    assert_eq!(number(&persistence, "checkpoints_total"), 1.0);
    assert!(number(&persistence, "checkpoint_bytes") > 0.0);
    started.server.shutdown();
    started.db.close().unwrap();
    let db = Arc::new(Db::open(started.dir.path()).unwrap());
    let server = start(Arc::clone(&db), options()).unwrap();
    let mut client = Client::connect(server.addresses().resp.unwrap());
    let persistence = info(&mut client, "persistence");
    assert_eq!(number(&persistence, "checkpoints_total"), 0.0);
    assert_eq!(number(&persistence, "checkpoint_bytes"), 0.0);
}

/// Ends threads that look at it, also when the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn indexes_are_walked_beside_writers() {
    for kind in INDEXES {
        let started = over(kind);
        let keyspace = started.db.keyspace("default").unwrap();
        // A key of this name, cut or filled up if all keys have one width.
        let key_of = |name: String| {
            let mut key = name.into_bytes();
            key.resize(kind.key_bytes().unwrap_or(key.len()), 0);
            key
        };
        // These stay; others of all lengths come and go between them.
        for i in 0..1000 {
            keyspace.put(&key_of(format!("{i:06}")), b"v").unwrap();
        }
        let stop = AtomicBool::new(false);
        let rounds = [AtomicUsize::new(0), AtomicUsize::new(0)];
        std::thread::scope(|scope| {
            for (thread, rounds) in rounds.iter().enumerate() {
                let (keyspace, stop) = (&keyspace, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let round = rounds.fetch_add(1, Ordering::Relaxed);
                        for i in 0..200usize {
                            let tail = "x".repeat(i % 40);
                            let key = key_of(format!("{:06}{tail}{thread}", i * 5));
                            match round % 2 {
                                0 => drop(keyspace.put(&key, b"w").unwrap()),
                                _ => drop(keyspace.remove(&key).unwrap()),
                            }
                        }
                    }
                });
            }
            let _stop = Stop(&stop);
            let (mut walks, mut far) = (0, 0);
            while walks < 50
                || rounds
                    .iter()
                    .any(|rounds| rounds.load(Ordering::Relaxed) < 4)
            {
                let shape = keyspace
                    .index_statistics_in_memory()
                    .unwrap()
                    .expect("all is in memory");
                // A walk may meet a key twice, or miss what moves; it is near all the same, unless
                // its thread waited for the processor while writers replaced what it had found.
                // That of a B-tree may find none of the tree's shape beside writers.
                let keys = shape.get("keys");
                far += i32::from(keys.is_some_and(|keys| !(200.0..6000.0).contains(&keys)));
                walks += 1;
            }
            assert!(4 * far < walks, "{}: {far} of {walks}", kind.name());
        });
        started.db.verify().unwrap();
    }
}
