//! Tables and indexes.

use crate::error::{Error, Result};
use crate::index_form::IndexForm;
use crate::multimap::Multimap;
use crate::row::Row;
use crate::row_lock::{Concurrency, Mode, Request};
use crate::settings::Settings;
use crate::table::Table;

/// Which table of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableId(pub usize);

/// Which index of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexId(pub usize);

/// An in-memory database.
pub struct Database {
    settings: Settings,
    tables: Vec<Table>,
    indexes: Vec<(TableId, Box<dyn Multimap>)>,
}

impl Database {
    /// A database without tables.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            tables: Vec::new(),
            indexes: Vec::new(),
        }
    }

    /// Adds a table whose rows have so many words.
    pub fn add_table(&mut self, name: &'static str, words: usize) -> TableId {
        let table = Table::new(name, words, self.settings);
        self.tables.push(table);
        TableId(self.tables.len() - 1)
    }

    /// Adds an index of a table, for about so many keys.
    pub fn add_index(&mut self, table: TableId, form: IndexForm, keys: usize) -> IndexId {
        let multimap = form.into_multimap(keys, self.settings.placement);
        self.indexes.push((table, multimap));
        IndexId(self.indexes.len() - 1)
    }

    /// Inserts a row outside of transactions.
    pub fn load(&self, table: TableId, words: &[u64], keys: &[(IndexId, u64)]) {
        let request = Request {
            mode: Mode::Exclusive,
            timestamp: 0,
            concurrency: Concurrency::NoWait,
        };
        let row = self.table(table).place(request, words);
        let at = row.change_incarnation();
        for (index, key) in keys {
            self.index(*index).insert(*key, at.raw());
        }
        row.lock().release(Mode::Exclusive, request.timestamp);
    }

    /// Makes room for so many rows more of a table, so that none of the transactions that insert
    /// them waits for the table to grow.
    pub fn reserve(&self, table: TableId, rows: u64) {
        self.table(table).reserve(rows);
    }

    /// Visits all rows of a table; for quiet moments.
    pub fn for_each_row(&self, table: TableId, visit: impl FnMut(&Row)) {
        self.table(table).for_each(visit);
    }

    /// How many rows a table has room for: rows that are there, and places that were freed. Walks
    /// nothing.
    #[must_use]
    pub fn places(&self, table: TableId) -> u64 {
        self.table(table).places()
    }

    /// Checks all indexes, and that each names as many rows as its table has.
    ///
    /// # Errors
    ///
    /// The first violation.
    pub fn verify(&self) -> Result<()> {
        let mut rows = vec![0; self.tables.len()];
        for (table, count) in self.tables.iter().zip(&mut rows) {
            table.for_each(|_| *count += 1);
        }
        for (number, (table, index)) in self.indexes.iter().enumerate() {
            index.verify().map_err(Error::Inconsistent)?;
            let (named, name) = (index.len(), self.table(*table).name());
            if named != rows[table.0] {
                return Err(Error::Inconsistent(format!(
                    "index {number} of {name} names {named} rows, the table has {}",
                    rows[table.0]
                )));
            }
        }
        Ok(())
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    pub(crate) fn table(&self, id: TableId) -> &Table {
        &self.tables[id.0]
    }

    pub(crate) fn index(&self, id: IndexId) -> &dyn Multimap {
        &*self.indexes[id.0].1
    }
}
