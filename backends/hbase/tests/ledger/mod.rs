//! Writers with a ledger outside of the database. What was acknowledged is there; what was
//! acknowledged once happened once; what failed did not happen; and only what the backend itself
//! calls unknown may be either.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use hedgerow::backend::BackendKeyspace;
use hedgerow::{Action, Error, WriteOptions};
use hedgerow_hbase::HbaseKeyspace;

/// Tokens that a writer appends to a row before it goes on with the next one.
const TOKENS_OF_A_ROW: u64 = 200;

/// Much longer than a cluster takes to recover on a busy machine.
const LONG: Duration = Duration::from_secs(300);

/// What became of a write, as the backend says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reported {
    Done,
    Failed,
    Unknown,
}

/// Errors that a ledger shows of each writer.
const MOST_ERRORS: usize = 5;

/// What was reported to one writer of its writes.
#[derive(Default)]
pub struct Ledger {
    /// Of tokens appended to rows that all writers share.
    appended: BTreeMap<String, Reported>,
    /// Of additions to the counter that all writers share.
    added: Vec<Reported>,
    /// Of its own row: each value that was put, in their order.
    put: Vec<(u64, Reported)>,
    /// Of additions to its own counter, in the fields of a hash.
    fields: Vec<Reported>,
    /// Sums of that counter that cannot be.
    wrong_sums: Vec<String>,
    /// The first errors that say that a write failed.
    errors: BTreeSet<String>,
}

/// What a ledger and the rows say together.
#[derive(Debug, Default)]
pub struct Findings {
    acknowledged: u64,
    unknown: u64,
    failed: u64,
    errors: BTreeSet<String>,
    /// Acknowledged writes that are not there.
    pub lost: Vec<String>,
    /// Writes that are there more often than was reported.
    pub repeated: Vec<String>,
}

impl std::fmt::Display for Findings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} writes acknowledged, {} unknown, {} failed; {} lost, {} repeated",
            self.acknowledged,
            self.unknown,
            self.failed,
            self.lost.len(),
            self.repeated.len()
        )?;
        for error in &self.errors {
            write!(f, "\nfailed: {error}")?;
        }
        Ok(())
    }
}

impl Findings {
    /// Whether the backend kept its promise.
    pub fn is_clean(&self) -> bool {
        self.lost.is_empty() && self.repeated.is_empty()
    }

    fn count(&mut self, reported: Reported) {
        match reported {
            Reported::Done => self.acknowledged += 1,
            Reported::Unknown => self.unknown += 1,
            Reported::Failed => self.failed += 1,
        }
    }
}

fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).unwrap().parse().unwrap()
}

fn append(keyspace: &HbaseKeyspace, key: &str, token: &str) -> Result<(), Error> {
    let appended = keyspace.update(key.as_bytes(), &WriteOptions::default(), |row, new| {
        let old = row.and_then(|row| row.value()).unwrap_or_default();
        new.set_value_owned([old, token.as_bytes(), b" "].concat());
        Action::Put(())
    });
    appended.map(|_| ())
}

fn add(keyspace: &HbaseKeyspace, key: &[u8]) -> Result<(), Error> {
    let added = keyspace.update(key, &WriteOptions::default(), |row, new| {
        let old = row.and_then(|row| row.value()).unwrap_or(b"0");
        new.set_value((number(old) + 1).to_string().as_bytes());
        Action::Put(())
    });
    added.map(|_| ())
}

/// Adds to a counter in the field of a hash that has other fields, too.
fn add_to_field(keyspace: &HbaseKeyspace, key: &str) -> Result<u64, Error> {
    let added = keyspace.update(key.as_bytes(), &WriteOptions::default(), |row, new| {
        let old = row.and_then(|row| row.column(b"n")).unwrap_or(b"0");
        let sum = number(old) + 1;
        new.set_column(b"n", sum.to_string().as_bytes());
        new.set_column(format!("f{}", sum % 10).as_bytes(), b"x");
        Action::Put(sum)
    });
    added.map(|(sum, _)| sum)
}

impl Ledger {
    fn report<T>(&mut self, outcome: &Result<T, Error>) -> Reported {
        match outcome {
            Ok(_) => Reported::Done,
            Err(Error::OutcomeUnknown(_)) => Reported::Unknown,
            Err(error) => {
                if self.errors.len() < MOST_ERRORS {
                    self.errors.insert(error.to_string());
                }
                Reported::Failed
            }
        }
    }

    /// Writes as one of several writers, round after round, as long as `goes_on` says of the number
    /// of a round.
    pub fn of_writer(
        keyspace: &HbaseKeyspace,
        writer: usize,
        goes_on: impl Fn(u64) -> bool,
    ) -> Ledger {
        let mut ledger = Ledger::default();
        let own = format!("own {writer}");
        let (mut known, mut unknown) = (0, 0);
        for i in (1..).take_while(|i| goes_on(*i)) {
            let token = format!("{writer}.{i}");
            let row = format!("log {}", i / TOKENS_OF_A_ROW);
            let appended = ledger.report(&append(keyspace, &row, &token));
            ledger.appended.insert(token, appended);
            let added = ledger.report(&add(keyspace, b"counter"));
            ledger.added.push(added);
            let options = WriteOptions::default();
            let put = keyspace.put_with(own.as_bytes(), i.to_string().as_bytes(), &options);
            let put = ledger.report(&put);
            ledger.put.push((i, put));
            let sum = add_to_field(keyspace, &format!("fields {writer}"));
            let added = ledger.report(&sum);
            ledger.fields.push(added);
            match sum {
                Ok(sum) => {
                    let possible = known + 1..=known + unknown + 1;
                    if !possible.contains(&sum) {
                        let wrong = format!("fields {writer}: {sum} is not in {possible:?}");
                        ledger.wrong_sums.push(wrong);
                    }
                    (known, unknown) = (sum, 0);
                }
                Err(Error::OutcomeUnknown(_)) => unknown += 1,
                Err(_) => {}
            }
        }
        ledger
    }
}

/// Reads a plain value, once the cluster answers; empty if there is none.
fn value(keyspace: &HbaseKeyspace, key: &str) -> String {
    let until = Instant::now() + LONG;
    loop {
        match keyspace.read(key.as_bytes(), |row| row.value().unwrap().to_vec()) {
            Ok(value) => return String::from_utf8(value.unwrap_or_default()).unwrap(),
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// How often each token stands in the rows that all writers append to.
fn tokens(keyspace: &HbaseKeyspace, rounds: u64) -> BTreeMap<String, u64> {
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for row in 0..=rounds / TOKENS_OF_A_ROW {
        for token in value(keyspace, &format!("log {row}")).split_whitespace() {
            *found.entry(token.to_owned()).or_default() += 1;
        }
    }
    found
}

fn check_tokens(keyspace: &HbaseKeyspace, ledgers: &[Ledger], findings: &mut Findings) {
    let rounds = ledgers.iter().map(|ledger| ledger.put.len()).max();
    let mut found = tokens(keyspace, rounds.unwrap_or(0) as u64);
    for (token, reported) in ledgers.iter().flat_map(|ledger| &ledger.appended) {
        findings.count(*reported);
        let times = found.remove(token).unwrap_or(0);
        let finding = format!("token {token} is there {times} times, reported {reported:?}");
        match (reported, times) {
            (Reported::Done, 0) => findings.lost.push(finding),
            (Reported::Done, 1) | (Reported::Failed, 0) | (Reported::Unknown, 0..=1) => {}
            _ => findings.repeated.push(finding),
        }
    }
    for (token, times) in found {
        findings
            .repeated
            .push(format!("nobody appended {token}, {times} times"));
    }
}

fn check_counter(keyspace: &HbaseKeyspace, ledgers: &[Ledger], findings: &mut Findings) {
    let (mut done, mut unknown) = (0, 0);
    for reported in ledgers.iter().flat_map(|ledger| &ledger.added) {
        findings.count(*reported);
        done += u64::from(*reported == Reported::Done);
        unknown += u64::from(*reported == Reported::Unknown);
    }
    let counter: u64 = value(keyspace, "counter").parse().unwrap_or(0);
    let finding = format!("counter {counter}: {done} done, {unknown} unknown");
    if counter < done {
        findings.lost.push(finding);
    } else if counter > done + unknown {
        findings.repeated.push(finding);
    }
}

/// A row that one writer puts has the last acknowledged value, or one behind it that may have
/// happened.
fn check_own(keyspace: &HbaseKeyspace, writer: usize, ledger: &Ledger, findings: &mut Findings) {
    let own: u64 = value(keyspace, &format!("own {writer}"))
        .parse()
        .unwrap_or(0);
    let mut last = 0;
    for (i, reported) in &ledger.put {
        findings.count(*reported);
        if *reported == Reported::Done {
            last = *i;
        }
    }
    let mut unknown = ledger.put.iter();
    let may_be = unknown.any(|(i, reported)| *i == own && *reported == Reported::Unknown);
    if own < last {
        let finding = format!("own {writer}: {own}, acknowledged {last}");
        findings.lost.push(finding);
    } else if own > last && !may_be {
        let finding = format!("own {writer}: {own} failed, acknowledged {last}");
        findings.repeated.push(finding);
    }
}

/// Compares what was reported to all writers, in their order, with what is there.
pub fn check(keyspace: &HbaseKeyspace, ledgers: &[Ledger]) -> Findings {
    let mut findings = Findings::default();
    check_tokens(keyspace, ledgers, &mut findings);
    check_counter(keyspace, ledgers, &mut findings);
    for (writer, ledger) in ledgers.iter().enumerate() {
        check_own(keyspace, writer, ledger, &mut findings);
        for reported in &ledger.fields {
            findings.count(*reported);
        }
        findings.repeated.extend(ledger.wrong_sums.iter().cloned());
        findings.errors.extend(ledger.errors.iter().cloned());
    }
    // What writes nothing loses nothing.
    assert!(findings.acknowledged > 0, "{findings:?}");
    findings
}
