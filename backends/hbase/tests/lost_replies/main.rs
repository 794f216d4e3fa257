//! The ledger beside gateways that lose answers: no cluster is needed.
//!
//! Writers share a table in memory (`table`). Of its gateways' answers to checked writes some are
//! lost, of writes that were done as of others, and some writes are done later, as by a gateway
//! that hung; a seed decides which, while threads are free to interleave. With the feature
//! `planted-bugs` each bug of the crate must make the ledger complain:
//!
//! ```text
//! cargo test -p hedgerow-hbase --features planted-bugs --test lost_replies
//! ```

#[allow(
    dead_code,
    reason = "scripts of the tests of single calls use more of it"
)]
#[path = "../gateway/fake.rs"]
mod fake;
#[path = "../ledger/mod.rs"]
mod ledger;
#[allow(
    dead_code,
    reason = "tests of calls that are sent together use more of it"
)]
mod table;

use std::sync::Arc;

use hedgerow::backend::Backend;
use hedgerow_hbase::{Hbase, HbaseOptions, Options};

use fake::{Fake, LONG};
use ledger::{Findings, Ledger};
use table::Table;

const WRITERS: usize = 4;
const ROUNDS: u64 = 60;

fn options() -> HbaseOptions {
    HbaseOptions {
        gateways: Options {
            // Every lost answer costs one.
            attempts: 1000,
            ..fake::options()
        },
        deadline: LONG,
        ..HbaseOptions::default()
    }
}

/// Lets all writers write, and compares.
fn campaign() -> Findings {
    let seed = std::env::var("HEDGEROW_SEED")
        .map_or_else(|_| rand::random(), |seed| seed.parse().expect("a number"));
    let table = Arc::new(Table::new(seed));
    let gateways: Vec<Fake> = (0..2)
        .map(|_| {
            let table = Arc::clone(&table);
            Fake::start(move |seen| table.answer(seen))
        })
        .collect();
    let addresses: Vec<String> = gateways
        .iter()
        .map(|gateway| gateway.address().to_string())
        .collect();
    let url = format!("hbase://{}/test", addresses.join(","));
    let db = Hbase::open(&url.parse().unwrap(), options()).unwrap();
    let keyspace = db.keyspace("rows").unwrap();
    let ledgers = std::thread::scope(|scope| {
        let keyspace = &keyspace;
        let writer = |writer| {
            scope.spawn(move || Ledger::of_writer(keyspace, writer, |round| round <= ROUNDS))
        };
        let writers: Vec<_> = (0..WRITERS).map(writer).collect();
        let ledgers = writers.into_iter().map(|writer| writer.join().unwrap());
        ledgers.collect::<Vec<_>>()
    });
    table.do_late_writes();
    let findings = ledger::check(&keyspace, &ledgers);
    eprintln!("{}; {findings}", table.counts());
    findings
}

#[test]
fn lost_replies_lose_no_write_and_repeat_none() {
    let findings = campaign();
    assert!(findings.is_clean(), "{findings:?}");
    #[cfg(feature = "planted-bugs")]
    for bug in hedgerow_hbase::PlantedBug::ALL {
        hedgerow_hbase::plant(Some(*bug));
        eprint!("{bug:?}: ");
        let findings = campaign();
        hedgerow_hbase::plant(None);
        assert!(!findings.is_clean(), "{bug:?} is not found");
    }
}
