//! Calls for rows: reading, writing, checked writes, scans.

use std::borrow::Borrow;

use crate::calls::Calls;
use crate::error::{Error, Result};
use crate::retry::Repeat;
use crate::table_name::TableName;
use crate::thrift2::{
    TAppend, TCompareOp, TDelete, TGet, THRegionLocation, TIncrement, TMutation, TPut, TResult,
    TRowMutations, TScan,
};
use crate::wire::{Arguments, CHECKED, FLAG, INTEGER, VOID, structure, structures};

/// What a cell must be like for a checked write to be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check<'a> {
    /// The row, which must be the one that is written.
    pub row: &'a [u8],
    /// The cell's column family.
    pub family: &'a [u8],
    /// The cell's qualifier.
    pub qualifier: &'a [u8],
    /// How the value must compare with the cell's: HBase asks `value compare cell`, so
    /// [`TCompareOp::LESS`] wants a value less than the cell's.
    pub compare: TCompareOp,
    /// The value to compare the cell's newest version with; none where there must be no cell.
    pub value: Option<&'a [u8]>,
}

impl<'a> Check<'a> {
    /// The cell must have this value. HBase takes an absent cell for one with an empty value.
    pub fn equals(
        row: &'a [u8],
        family: &'a [u8],
        qualifier: &'a [u8],
        value: &'a [u8],
    ) -> Check<'a> {
        Check {
            row,
            family,
            qualifier,
            compare: TCompareOp::EQUAL,
            value: Some(value),
        }
    }

    /// There must be no such cell.
    pub fn absent(row: &'a [u8], family: &'a [u8], qualifier: &'a [u8]) -> Check<'a> {
        Check {
            row,
            family,
            qualifier,
            compare: TCompareOp::EQUAL,
            value: None,
        }
    }

    /// The arguments with the ids 1 to 4, which all checked writes begin with.
    fn place(&self, method: &'static str, table: &TableName) -> Arguments {
        Arguments::of(method)
            .bytes(1, table.full())
            .bytes(2, self.row)
            .bytes(3, self.family)
            .bytes(4, self.qualifier)
    }

    /// A write of cells alone goes as `checkAndPut` where that can say the check: a gateway of
    /// HBase 2.6 fails at a `checkAndMutate` that wants no cell.
    fn mutate(&self, table: &TableName, mutations: &TRowMutations) -> Arguments {
        match &mutations.mutations[..] {
            [TMutation::Put(put)] if self.compare == TCompareOp::EQUAL => {
                let arguments = self.place("checkAndPut", table);
                arguments.optional_bytes(5, self.value).structure(6, put)
            }
            _ => {
                let arguments = self.place("checkAndMutate", table);
                let arguments = arguments.integer(5, self.compare.0);
                arguments
                    .optional_bytes(6, self.value)
                    .structure(7, mutations)
            }
        }
    }
}

/// A scan that is open in a gateway. Gateways close one that nobody uses for a minute
/// (`hbase.client.scanner.timeout.period`).
#[derive(Debug, PartialEq, Eq)]
pub struct Scanner {
    gateway: usize,
    id: i32,
}

fn table_call(method: &'static str, table: &TableName) -> Arguments {
    Arguments::of(method).bytes(1, table.full())
}

/// As many rows as Thrift can ask for.
fn row_count(rows: usize) -> i32 {
    i32::try_from(rows).unwrap_or(i32::MAX)
}

/// Reads.
impl Calls<'_> {
    /// Whether a row has any cell that `get` asks for.
    pub fn exists(&self, table: &TableName, get: &TGet) -> Result<bool> {
        self.read(table_call("exists", table).structure(2, get), &FLAG)
    }

    /// A row's cells; none if there is no such row.
    pub fn get(&self, table: &TableName, get: &TGet) -> Result<TResult> {
        self.read(table_call("get", table).structure(2, get), &structure())
    }

    /// Several rows' cells, in the order of `gets`: without cells where there is no such row. The
    /// gateway asks all region servers concerned at once.
    pub fn get_multiple(&self, table: &TableName, gets: &[TGet]) -> Result<Vec<TResult>> {
        self.rows_of(table, gets, Repeat::Freely)
    }

    /// As [`Calls::get_multiple`], but a call that was sent, and failed, is not sent again.
    pub(crate) fn get_multiple_once(
        &self,
        table: &TableName,
        gets: &[TGet],
    ) -> Result<Vec<TResult>> {
        self.rows_of(table, gets, Repeat::OnlyIfUnsent)
    }

    fn rows_of(&self, table: &TableName, gets: &[TGet], repeat: Repeat) -> Result<Vec<TResult>> {
        if gets.is_empty() {
            return Ok(Vec::new());
        }
        const METHOD: &str = "getMultiple";
        let arguments = table_call(METHOD, table).structures(2, gets);
        let (rows, gateway) = self.read_at(arguments, &structures(), repeat, None)?;
        match rows.len() == gets.len() {
            true => Ok(rows),
            false => Err(self.protocol_error(
                METHOD,
                gateway,
                format!("{} rows where {} were asked for", rows.len(), gets.len()),
            )),
        }
    }

    /// The first rows of a scan, at most `rows` of them. The gateway opens a scan for it, and
    /// closes it again: two round trips or more between it and HBase.
    pub fn scan_page(&self, table: &TableName, scan: &TScan, rows: usize) -> Result<Vec<TResult>> {
        let arguments = table_call("getScannerResults", table).structure(2, scan);
        self.read(arguments.integer(3, row_count(rows)), &structures())
    }

    /// Opens a scan, whose rows [`Calls::scanner_rows`] reads. It belongs to one gateway, and ends
    /// with it.
    pub fn open_scanner(&self, table: &TableName, scan: &TScan) -> Result<Scanner> {
        let arguments = table_call("openScanner", table).structure(2, scan);
        let (id, gateway) = self.read_at(arguments, &INTEGER, Repeat::Freely, None)?;
        Ok(Scanner { gateway, id })
    }

    /// The next rows of a scan, at most `rows` of them; none at its end. After an error the scan's
    /// place is lost: open another one behind the last row.
    pub fn scanner_rows(&self, scanner: &Scanner, rows: usize) -> Result<Vec<TResult>> {
        let arguments = Arguments::of("getScannerRows").integer(1, scanner.id);
        let arguments = arguments.integer(2, row_count(rows));
        let only = Some(scanner.gateway);
        let read = self.read_at(arguments, &structures(), Repeat::OnlyIfUnsent, only);
        read.map(|(rows, _)| rows)
    }

    /// Closes a scan. After an error its gateway will, when nobody has used it for a minute.
    pub fn close_scanner(&self, scanner: Scanner) -> Result<()> {
        let arguments = Arguments::of("closeScanner").integer(1, scanner.id);
        let only = Some(scanner.gateway);
        let closed = self.read_at(arguments, &VOID, Repeat::OnlyIfUnsent, only);
        closed.map(|((), _)| ())
    }

    /// The regions of a table, in the order of their keys, and who serves them.
    pub fn region_locations(&self, table: &TableName) -> Result<Vec<THRegionLocation>> {
        let arguments = table_call("getAllRegionLocations", table);
        self.read(arguments, &structures())
    }

    /// The region of a row, and who serves it: with `reload` by what HBase says now, else by what
    /// the gateway remembers.
    pub fn region_location(
        &self,
        table: &TableName,
        row: &[u8],
        reload: bool,
    ) -> Result<THRegionLocation> {
        let arguments = table_call("getRegionLocation", table).bytes(2, row);
        self.read(arguments.flag(3, reload), &structure())
    }

    fn protocol_error(&self, call: &'static str, gateway: usize, why: String) -> Error {
        Error::Protocol {
            call,
            gateway: self.address(gateway).to_string(),
            why,
        }
    }
}

/// Writes of one row, all or nothing.
impl Calls<'_> {
    /// Writes cells of a row.
    pub fn put(&self, table: &TableName, put: &TPut, repeat: Repeat) -> Result<()> {
        let arguments = table_call("put", table).structure(2, put);
        self.write(arguments, &VOID, repeat)
    }

    /// Deletes cells of a row, or all of it.
    pub fn delete(&self, table: &TableName, delete: &TDelete, repeat: Repeat) -> Result<()> {
        let arguments = table_call("deleteSingle", table).structure(2, delete);
        self.write(arguments, &VOID, repeat)
    }

    /// Writes and deletes cells of a row.
    pub fn mutate_row(
        &self,
        table: &TableName,
        mutations: &TRowMutations,
        repeat: Repeat,
    ) -> Result<()> {
        let arguments = table_call("mutateRow", table).structure(2, mutations);
        self.write(arguments, &VOID, repeat)
    }

    /// Adds to counters of a row, and returns them. Never sent twice.
    pub fn increment(&self, table: &TableName, increment: &TIncrement) -> Result<TResult> {
        let arguments = table_call("increment", table).structure(2, increment);
        self.write(arguments, &structure(), Repeat::OnlyIfUnsent)
    }

    /// Appends to values of a row, and returns them. Never sent twice.
    pub fn append(&self, table: &TableName, append: &TAppend) -> Result<TResult> {
        let arguments = table_call("append", table).structure(2, append);
        self.write(arguments, &structure(), Repeat::OnlyIfUnsent)
    }
}

/// Writes of several rows, each all or nothing by itself.
///
/// They fail with [`Error::Unknown`] wherever HBase refuses anything, as other rows may have been
/// written; [`Error::refusal`] has what it said.
impl Calls<'_> {
    /// Writes cells of several rows.
    pub fn put_multiple(&self, table: &TableName, puts: &[TPut], repeat: Repeat) -> Result<()> {
        if puts.is_empty() {
            return Ok(());
        }
        let arguments = table_call("putMultiple", table).structures(2, puts);
        self.write_batch(arguments, &VOID, repeat)
    }

    /// Deletes cells of several rows, or all of them.
    pub fn delete_multiple(
        &self,
        table: &TableName,
        deletes: &[TDelete],
        repeat: Repeat,
    ) -> Result<()> {
        if deletes.is_empty() {
            return Ok(());
        }
        let arguments = table_call("deleteMultiple", table).structures(2, deletes);
        let failed = self.write_batch(arguments, &structures::<TDelete>(), repeat);
        // The list is empty, in all versions of HBase: one that fails is an exception.
        failed.map(|_| ())
    }
}

/// Checked writes of one row: they return whether the check held, and so whether the row was
/// written.
///
/// Where the first try of one that may be repeated was perhaps applied, and the second finds that
/// the check does not hold, the first may be the reason: that is [`Error::Unknown`], too. A value
/// that no other write has, in the row that is written, tells who was it.
impl Calls<'_> {
    /// Writes and deletes cells of a row if `check` holds.
    pub fn check_and_mutate(
        &self,
        table: &TableName,
        check: &Check<'_>,
        mutations: &TRowMutations,
        repeat: Repeat,
    ) -> Result<bool> {
        self.write(check.mutate(table, mutations), &CHECKED, repeat)
    }

    /// Several checked writes, under way at once on a connection: HBase does them one after the
    /// other, which saves the round trips to the gateway in between. Each has its own result, in
    /// their order.
    pub fn check_and_mutate_many(
        &self,
        table: &TableName,
        writes: &[(Check<'_>, impl Borrow<TRowMutations>)],
        repeat: Repeat,
    ) -> Vec<Result<bool>> {
        let calls = writes.iter();
        let calls = calls.map(|(check, mutations)| check.mutate(table, mutations.borrow()));
        self.write_many(calls, &CHECKED, repeat)
    }

    /// Writes cells of a row if `check` holds, which must be [`Check::equals`] or
    /// [`Check::absent`]: its `compare` is not sent.
    pub fn check_and_put(
        &self,
        table: &TableName,
        check: &Check<'_>,
        put: &TPut,
        repeat: Repeat,
    ) -> Result<bool> {
        let arguments = check.place("checkAndPut", table);
        let arguments = arguments.optional_bytes(5, check.value).structure(6, put);
        self.write(arguments, &CHECKED, repeat)
    }

    /// Deletes cells of a row, or all of it, if `check` holds, which must be [`Check::equals`] or
    /// [`Check::absent`]: its `compare` is not sent.
    pub fn check_and_delete(
        &self,
        table: &TableName,
        check: &Check<'_>,
        delete: &TDelete,
        repeat: Repeat,
    ) -> Result<bool> {
        let arguments = check.place("checkAndDelete", table);
        let arguments = arguments
            .optional_bytes(5, check.value)
            .structure(6, delete);
        self.write(arguments, &CHECKED, repeat)
    }
}
