//! Databases that keep their promise show no anomaly, also under levels that promise less; those
//! that promise less than the level, or break their promise, show the phenomena that they must.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use hedgerow_testkit::serializability::driver::{run_interleaved, run_threads};
use hedgerow_testkit::serializability::workload::{Choice, Kinds, Mix, Workload};
use hedgerow_testkit::serializability::{Anomaly, Model, check};

use crate::permutations::scaled;
use crate::subject::{Database, Flaw, Isolation, LosesAnswers};

/// Workloads of all kinds: many and few keys, short and long transactions.
fn workload(seed: u64) -> Workload {
    let mut workload = Workload {
        seed,
        processes: 3 + (seed % 4) as usize,
        ..Workload::default()
    };
    if seed.is_multiple_of(2) {
        workload.keys = 5;
        workload.mix.remove = 3;
    }
    match seed % 3 {
        0 => workload.kinds = Kinds::Registers,
        1 => workload.choice = Choice::Uniform,
        _ => {}
    }
    workload
}

/// Few transactions that insert into ranges which others read: phantoms, and little else.
fn inserts(seed: u64) -> Workload {
    Workload {
        seed,
        transactions: 12,
        operations: 1..=3,
        keys: 40,
        transactions_per_new_key: 1,
        kinds: Kinds::Registers,
        choice: Choice::Uniform,
        mix: Mix {
            read: 0,
            write: 1,
            remove: 0,
            range: 2,
        },
        update_percent: 0,
        ..Workload::default()
    }
}

/// Some transactions remove a range of registers.
fn range_removals(seed: u64) -> Workload {
    Workload {
        kinds: Kinds::MixedThenRegisters,
        range_removal_percent: 3,
        ..workload(seed)
    }
}

/// What the level says about the database's answers to one workload.
fn verdict(
    isolation: Isolation,
    flaw: Flaw,
    model: Model,
    mut workload: Workload,
) -> Result<(), Anomaly> {
    let seed = workload.seed;
    if isolation == Isolation::ReadCommitted {
        // An append is a read and a write, which are not atomic under read committed.
        workload.kinds = Kinds::Registers;
    }
    let history = run_interleaved(&Database::new(isolation, flaw), &workload);
    let statistics = check(&history, model)?;
    assert!(!statistics.gave_up, "seed {seed}: {statistics:?}");
    assert_eq!(statistics.undetermined, 0, "seed {seed}");
    Ok(())
}

/// How often each phenomenon is seen under many seeds.
fn phenomena(
    isolation: Isolation,
    flaw: Flaw,
    model: Model,
    workload: fn(u64) -> Workload,
) -> BTreeMap<String, usize> {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let mut first = true;
    for seed in 0..SEEDS {
        if let Err(anomaly) = verdict(isolation, flaw, model, workload(seed)) {
            *found.entry(anomaly.phenomenon.to_string()).or_default() += 1;
            if first {
                println!("{isolation:?}, {flaw:?}, seed {seed}, {model:?}: {anomaly}\n");
                first = false;
            }
        }
    }
    println!("{isolation:?}, {flaw:?}, {model:?}: {found:?}");
    found
}

const SEEDS: u64 = 40;

fn is_clean(isolation: Isolation, models: &[Model]) {
    for seed in 0..scaled(SEEDS as usize) as u64 {
        for model in models {
            if let Err(anomaly) = verdict(isolation, Flaw::None, *model, workload(seed)) {
                panic!("{isolation:?} keeps {model:?}, seed {seed}: {anomaly}");
            }
        }
    }
}

#[test]
fn a_serializable_database_passes_every_level() {
    is_clean(
        Isolation::Serializable,
        &[
            Model::ReadCommitted,
            Model::Serializable,
            Model::StrongSessionSerializable,
            Model::StrictSerializable,
        ],
    );
}

#[test]
fn a_snapshot_database_passes_its_levels_and_shows_write_skew_alone() {
    is_clean(
        Isolation::Snapshot,
        &[
            Model::ReadCommitted,
            Model::SnapshotIsolation,
            Model::StrongSnapshotIsolation,
        ],
    );
    let strict = Model::StrictSerializable;
    for (workload, shown) in [
        (workload as fn(u64) -> Workload, "G2-item (write skew)"),
        (inserts, "G2 (phantom)"),
    ] {
        let found = phenomena(Isolation::Snapshot, Flaw::None, strict, workload);
        assert!(found.contains_key(shown), "{found:?}");
        let is_skew = |name: &String| name.starts_with("G2");
        assert!(found.keys().all(is_skew), "{found:?}");
    }
}

#[test]
fn a_read_committed_database_passes_its_level_and_shows_read_skew() {
    is_clean(Isolation::ReadCommitted, &[Model::ReadCommitted]);
    let found = phenomena(
        Isolation::ReadCommitted,
        Flaw::None,
        Model::SnapshotIsolation,
        workload,
    );
    assert!(found.contains_key("G-single (read skew)"), "{found:?}");
    assert!(
        !found.keys().any(|name| name.starts_with("G1")),
        "{found:?}"
    );
}

/// Fails unless the flawed database's histories show each of `names`, or what begins so.
fn shows(isolation: Isolation, flaw: Flaw, model: Model, names: &[&str]) {
    let found = phenomena(isolation, flaw, model, workload);
    for name in names {
        let is_shown = found.keys().any(|found| found.starts_with(name));
        assert!(is_shown, "{flaw:?} shows {name}: {found:?}");
    }
}

/// The same of a database that should be serializable.
fn shows_strictly(flaw: Flaw, names: &[&str]) {
    shows(
        Isolation::Serializable,
        flaw,
        Model::StrictSerializable,
        names,
    );
}

#[test]
fn removals_of_ranges_that_leave_a_row_are_found() {
    let strict = Model::StrictSerializable;
    let serializable = Isolation::Serializable;
    let found = phenomena(serializable, Flaw::None, strict, range_removals);
    assert!(found.is_empty(), "{found:?}");
    let broken = Flaw::RemovalsStopEarly;
    let found = phenomena(serializable, broken, strict, range_removals);
    assert!(!found.is_empty());
}

#[test]
fn skipped_validation_is_found() {
    shows_strictly(Flaw::SkipsRanges, &["G-single", "G2"]);
    shows_strictly(Flaw::SkipsAbsentKeys, &["G-single"]);
    shows_strictly(Flaw::SkipsKeys, &["incompatible order", "G-single"]);
    shows_strictly(
        Flaw::RetriesWithStaleReads,
        &["incompatible order", "G-single"],
    );
    let strict = Model::StrictSerializable;
    let found = phenomena(Isolation::Serializable, Flaw::SkipsRanges, strict, inserts);
    assert!(found.contains_key("G2 (phantom)"), "{found:?}");
    shows(
        Isolation::Snapshot,
        Flaw::SkipsWriteConflicts,
        Model::StrongSnapshotIsolation,
        &["G-single", "incompatible order"],
    );
}

#[test]
fn snapshots_that_miss_or_split_commits_are_found() {
    for (isolation, model) in [
        (Isolation::Serializable, Model::StrictSerializable),
        (Isolation::Snapshot, Model::StrongSnapshotIsolation),
    ] {
        shows(
            isolation,
            Flaw::StaleSnapshots,
            model,
            &["G-single-process"],
        );
        shows(
            isolation,
            Flaw::HalfCommits,
            model,
            &["G-single (read skew)"],
        );
        shows(
            isolation,
            Flaw::ReadsTheFuture,
            model,
            &["G-single (read skew)"],
        );
        shows(isolation, Flaw::LosesCommits, model, &["G-single"]);
        shows(isolation, Flaw::ReclaimsTooEarly, model, &["G-single"]);
    }
    // Without real time an old snapshot is a legal one.
    for seed in 0..SEEDS {
        let found = verdict(
            Isolation::Snapshot,
            Flaw::StaleSnapshots,
            Model::SnapshotIsolation,
            workload(seed),
        );
        assert_eq!(found, Ok(()), "seed {seed}");
    }
}

#[test]
fn wrong_ranges_aborts_own_writes_and_timestamps_are_found() {
    shows_strictly(Flaw::RangesShowRemoved, &["G-single"]);
    shows_strictly(Flaw::RangesStopEarly, &["G-single", "internal"]);
    shows_strictly(Flaw::InstallsConflicts, &["G1a"]);
    shows_strictly(Flaw::ForgetsOwnWrites, &["internal"]);
    shows_strictly(Flaw::SwapsTimestamps, &["G"]);
}

#[test]
fn threads_beside_each_other_are_serializable() {
    for seed in 0..6 {
        let database = Database::new(Isolation::Serializable, Flaw::None);
        let history = run_threads(&database, &workload(seed));
        if let Err(anomaly) = check(&history, Model::StrictSerializable) {
            panic!("seed {seed}: {anomaly}");
        }
        let database = Database::new(Isolation::Snapshot, Flaw::None);
        let history = run_threads(&database, &workload(seed));
        if let Err(anomaly) = check(&history, Model::StrongSnapshotIsolation) {
            panic!("seed {seed}: {anomaly}");
        }
    }
}

#[test]
fn a_workload_is_determined_by_its_seed_and_has_what_it_is_to_have() {
    let of = |seed| {
        let database = Database::new(Isolation::Serializable, Flaw::None);
        run_interleaved(&database, &workload(seed))
    };
    assert_eq!(of(3), of(3));
    assert_ne!(of(3), of(4));
    let found = check(&of(4), Model::StrictSerializable).expect("serializable");
    for (what, number) in [
        ("commits", found.committed),
        ("aborts", found.aborted),
        ("ww", found.write_dependencies),
        ("wr", found.read_dependencies),
        ("rw", found.anti_dependencies),
        ("phantoms", found.predicate_anti_dependencies),
        ("real time", found.real_time),
        ("absent reads", found.absent_reads),
    ] {
        assert!(number > 10, "{what}: {found:?}");
    }
}

#[test]
fn lost_answers_are_no_anomalies_but_hide_none_of_lists() {
    let mut unknown_seen = 0;
    for seed in 0..SEEDS {
        let run = |isolation, flaw, kinds| {
            let subject = LosesAnswers::new(Database::new(isolation, flaw));
            let workload = Workload {
                kinds,
                ..workload(seed)
            };
            run_interleaved(&subject, &workload)
        };
        for (isolation, model) in [
            (Isolation::Serializable, Model::StrictSerializable),
            (Isolation::Snapshot, Model::StrongSnapshotIsolation),
        ] {
            for kinds in [Kinds::Lists, Kinds::Mixed, Kinds::Registers] {
                match check(&run(isolation, Flaw::None, kinds), model) {
                    Ok(found) => unknown_seen += found.unknown_seen,
                    Err(anomaly) => panic!("{isolation:?}, {kinds:?}, seed {seed}: {anomaly}"),
                }
            }
        }
        let broken = run(Isolation::Serializable, Flaw::LosesCommits, Kinds::Lists);
        let found = check(&broken, Model::StrictSerializable);
        assert!(found.is_err(), "seed {seed}: {found:?}");
    }
    assert!(
        unknown_seen > 100,
        "{unknown_seen} unanswered transactions took part"
    );
}

/// What the search for an order of absent reads has most to choose of: few registers, often
/// removed, and no real time that bounds the choices.
#[test]
fn removals_everywhere_are_decided() {
    for seed in 0..scaled(4) as u64 {
        let workload = Workload {
            seed,
            processes: 12,
            transactions: 190,
            operations: 2..=6,
            keyspaces: 1,
            keys: 6,
            transactions_per_new_key: 0,
            kinds: Kinds::Registers,
            mix: Mix {
                read: 4,
                write: 2,
                remove: 3,
                range: 2,
            },
            ..Workload::default()
        };
        for (isolation, models) in [
            (
                Isolation::Serializable,
                [Model::Serializable, Model::StrictSerializable],
            ),
            (
                Isolation::Snapshot,
                [Model::SnapshotIsolation, Model::StrongSnapshotIsolation],
            ),
        ] {
            let history = run_interleaved(&Database::new(isolation, Flaw::None), &workload);
            for model in models {
                let found = check(&history, model);
                let is_decided = found.as_ref().is_ok_and(|found| !found.gave_up);
                assert!(is_decided, "seed {seed}, {model:?}: {found:?}");
            }
        }
    }
}

/// Prints how long histories of 10,000 operations take: the target is 50 ms in a release build.
#[test]
fn ten_thousand_operations() {
    for (name, keys, [read, write, remove, range], choice) in [
        ("points", 100, [5, 4, 1, 0], Choice::Zipf { exponent: 0.9 }),
        ("ranges", 100, [3, 4, 1, 3], Choice::Zipf { exponent: 0.9 }),
        ("few keys", 12, [3, 4, 2, 2], Choice::Uniform),
    ] {
        let workload = Workload {
            processes: 8,
            transactions: 290,
            operations: 2..=6,
            keys,
            mix: Mix {
                read,
                write,
                remove,
                range,
            },
            choice,
            range_keys: 20,
            ..Workload::default()
        };
        let run = |flaw| {
            let database = Database::new(Isolation::Serializable, flaw);
            let history = run_interleaved(&database, &workload);
            let mut times = [0; 5].map(|_| {
                let begun = Instant::now();
                black_box(check(&history, Model::StrictSerializable).is_ok());
                begun.elapsed()
            });
            times.sort();
            let found = check(&history, Model::StrictSerializable);
            let verdict = if found.is_ok() { "clean" } else { "anomaly" };
            let operations = history.operations();
            println!(
                "{name}: {operations} operations, {verdict}, median {:?}",
                times[2]
            );
            found
        };
        assert!(run(Flaw::None).is_ok_and(|found| !found.gave_up));
        assert!(run(Flaw::SkipsRanges).is_err() || range == 0);
    }
}
