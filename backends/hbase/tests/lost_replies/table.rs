//! A table in memory, as gateways show it: they lose answers, or do not.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use hedgerow_hbase::thrift2::{
    TColumn, TColumnValue, TDelete, TGet, TMutation, TPut, TResult, TRowMutations, TScan,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thrift::protocol::{TBinaryInputProtocol, TInputProtocol, TSerializable, TType};

use crate::fake::{Reply, Seen};

/// Late writes that wait at most.
const MOST_LATE: usize = 4;

/// The cells of a row by their qualifiers, each with its timestamp.
type Row = BTreeMap<Vec<u8>, (i64, Vec<u8>)>;

/// A checked write.
struct Write {
    row: Vec<u8>,
    qualifier: Vec<u8>,
    expected: Option<Vec<u8>>,
    mutations: Vec<TMutation>,
}

/// What becomes of a checked write and of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Answered,
    /// It is done, and the connection ends without an answer.
    Done,
    /// It is done, and the gateway's own call timed out.
    TimedOut,
    /// It is not done, and the connection ends.
    Dropped,
    /// The connection ends, and the write is done later.
    Late,
}

struct State {
    loses_answers: bool,
    rows: BTreeMap<Vec<u8>, Row>,
    late: VecDeque<Write>,
    random: StdRng,
    fates: BTreeMap<Fate, u64>,
}

/// The table.
pub struct Table(Mutex<State>);

/// The fields of a call's arguments.
struct Arguments<'a>(TBinaryInputProtocol<&'a [u8]>);

impl Arguments<'_> {
    /// Passes over the beginning of the next field; `None` at the end.
    fn next(&mut self) -> Option<i16> {
        let field = self.0.read_field_begin().unwrap();
        (field.field_type != TType::Stop).then(|| field.id.unwrap())
    }

    fn bytes(&mut self) -> Vec<u8> {
        self.0.read_bytes().unwrap()
    }

    fn structure<T: TSerializable>(&mut self) -> T {
        T::read_from_in_protocol(&mut self.0).unwrap()
    }

    fn structures<T: TSerializable>(&mut self) -> Vec<T> {
        let list = self.0.read_list_begin().unwrap();
        (0..list.size).map(|_| self.structure()).collect()
    }
}

/// Reads `checkAndPut` and `checkAndMutate`, which number their arguments differently.
fn decode_write(mut arguments: Arguments<'_>, is_put: bool) -> Write {
    let mut write = Write {
        row: Vec::new(),
        qualifier: Vec::new(),
        expected: None,
        mutations: Vec::new(),
    };
    while let Some(field) = arguments.next() {
        match (field, is_put) {
            (2, _) => write.row = arguments.bytes(),
            (4, _) => write.qualifier = arguments.bytes(),
            (1 | 3, _) => drop(arguments.bytes()),
            (5, true) | (6, false) => write.expected = Some(arguments.bytes()),
            (5, false) => assert_eq!(arguments.0.read_i32().unwrap(), 2, "EQUAL"),
            (6, true) => write.mutations = vec![TMutation::Put(arguments.structure())],
            (7, false) => write.mutations = arguments.structure::<TRowMutations>().mutations,
            other => panic!("an argument {other:?}"),
        }
    }
    write
}

fn put(row: &mut Row, put: TPut) {
    for cell in put.column_values {
        let time = cell.timestamp.or(put.timestamp).unwrap();
        let is_hidden = row.get(&cell.qualifier).is_some_and(|old| old.0 > time);
        if !is_hidden {
            row.insert(cell.qualifier, (time, cell.value));
        }
    }
}

fn delete(row: &mut Row, delete: TDelete) {
    for column in delete.columns.unwrap() {
        let until = column.timestamp.or(delete.timestamp).unwrap_or(i64::MAX);
        row.retain(|qualifier, (time, _)| {
            let is_named = column
                .qualifier
                .as_ref()
                .is_none_or(|name| name == qualifier);
            !is_named || *time > until
        });
    }
}

fn result(key: &[u8], row: Option<&Row>, columns: Option<&Vec<TColumn>>) -> TResult {
    let is_wanted = |qualifier: &Vec<u8>| {
        let columns = columns.into_iter().flatten();
        let mut names = columns.map(|column| column.qualifier.as_ref());
        names.any(|name| name.is_none_or(|name| name == qualifier))
    };
    let cells = row.into_iter().flatten();
    let cells = cells.filter(|(qualifier, _)| is_wanted(qualifier));
    let cells = cells.map(|(qualifier, (time, value))| TColumnValue {
        family: b"h".to_vec(),
        qualifier: qualifier.clone(),
        value: value.clone(),
        timestamp: Some(*time),
        tags: None,
        type_: None,
    });
    TResult::new(key.to_vec(), cells.collect(), None, None)
}

impl State {
    fn get(&self, get: &TGet) -> TResult {
        result(&get.row, self.rows.get(&get.row), get.columns.as_ref())
    }

    /// The first rows of a scan.
    fn scan(&self, scan: &TScan, rows: usize) -> Vec<TResult> {
        assert_ne!(scan.reversed, Some(true), "no test does that");
        let start = scan.start_row.clone().unwrap_or_default();
        let stop = scan.stop_row.clone().unwrap_or_default();
        let from_start = self.rows.range(start..);
        let within = from_start.take_while(|(key, _)| stop.is_empty() || **key < stop);
        let found = within.map(|(key, row)| result(key, Some(row), scan.columns.as_ref()));
        let found = found.filter(|row| !row.column_values.is_empty());
        found.take(rows).collect()
    }

    /// Does a checked write, if its check holds.
    fn write(&mut self, write: Write) -> bool {
        let row = self.rows.entry(write.row).or_default();
        let found = row.get(&write.qualifier).map(|(_, value)| value);
        if found != write.expected.as_ref() {
            return false;
        }
        for mutation in write.mutations {
            match mutation {
                TMutation::Put(of) => put(row, of),
                TMutation::DeleteSingle(of) => delete(row, of),
            }
        }
        true
    }

    fn answer_to_write(&mut self, write: Write) -> Reply {
        if !self.loses_answers {
            return Reply::Flag(self.write(write));
        }
        let is_due = self.late.len() > MOST_LATE || self.random.random_ratio(1, 8);
        if let Some(late) = is_due.then(|| self.late.pop_front()).flatten() {
            self.write(late);
        }
        let fate = match self.random.random_range(0..20) {
            0 => Fate::Done,
            1 => Fate::TimedOut,
            2 => Fate::Dropped,
            3 => Fate::Late,
            _ => Fate::Answered,
        };
        *self.fates.entry(fate).or_default() += 1;
        match fate {
            Fate::Answered => Reply::Flag(self.write(write)),
            Fate::Done => {
                self.write(write);
                Reply::Close
            }
            Fate::TimedOut => {
                self.write(write);
                let why = "org.apache.hadoop.hbase.ipc.CallTimeoutException: 5 s";
                Reply::IoError(why, Some(true))
            }
            Fate::Dropped => Reply::Close,
            Fate::Late => {
                self.late.push_back(write);
                Reply::Close
            }
        }
    }
}

impl Table {
    /// An empty one; the seed decides which answers are lost.
    pub fn new(seed: u64) -> Table {
        eprintln!("HEDGEROW_SEED={seed}");
        Table::of(seed, true)
    }

    /// An empty one that answers all writes.
    pub fn reliable() -> Table {
        Table::of(0, false)
    }

    fn of(seed: u64, loses_answers: bool) -> Table {
        Table(Mutex::new(State {
            loses_answers,
            rows: BTreeMap::new(),
            late: VecDeque::new(),
            random: StdRng::seed_from_u64(seed),
            fates: BTreeMap::new(),
        }))
    }

    /// The answer of a gateway.
    pub fn answer(&self, seen: &Seen) -> Reply {
        let mut state = self.0.lock().unwrap();
        let mut arguments = Arguments(TBinaryInputProtocol::new(&seen.arguments[..], true));
        match seen.method.as_str() {
            "createNamespace" => Reply::Void,
            "listNamespaces" | "getTableNamesByNamespace" => Reply::Rows(Vec::new()),
            "tableExists" => Reply::Flag(true),
            "getRegionLocation" => Reply::IoError("it has no regions", Some(false)),
            "get" => loop {
                match arguments.next() {
                    Some(1) => drop(arguments.bytes()),
                    Some(_) => break Reply::Row(state.get(&arguments.structure())),
                    None => panic!("no row to get"),
                }
            },
            "getMultiple" => loop {
                match arguments.next() {
                    Some(1) => drop(arguments.bytes()),
                    Some(_) => {
                        let gets = arguments.structures::<TGet>();
                        break Reply::Rows(gets.iter().map(|get| state.get(get)).collect());
                    }
                    None => panic!("no rows to get"),
                }
            },
            "getScannerResults" => {
                let (mut scan, mut rows) = (None, 0);
                while let Some(field) = arguments.next() {
                    match field {
                        1 => drop(arguments.bytes()),
                        2 => scan = Some(arguments.structure::<TScan>()),
                        _ => rows = arguments.0.read_i32().unwrap() as usize,
                    }
                }
                Reply::Rows(state.scan(&scan.expect("a scan"), rows))
            }
            "checkAndPut" => state.answer_to_write(decode_write(arguments, true)),
            "checkAndMutate" => state.answer_to_write(decode_write(arguments, false)),
            other => panic!("a call of {other}"),
        }
    }

    /// Does all writes that are still to be done.
    pub fn do_late_writes(&self) {
        let mut state = self.0.lock().unwrap();
        while let Some(late) = state.late.pop_front() {
            state.write(late);
        }
    }

    /// What became of writes, in words.
    pub fn counts(&self) -> String {
        let state = self.0.lock().unwrap();
        let fates = state.fates.iter();
        let fates: Vec<String> = fates.map(|(fate, n)| format!("{n} {fate:?}")).collect();
        fates.join(", ")
    }
}
