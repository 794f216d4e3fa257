//! Undoes a commit in indexes that can fail. A commit of several rows changes one row after the
//! other. Where an index's pages are in a file, the page of the third row may be unreadable; then
//! the first two get their old values and versions back. No checkpoint sees the state in between,
//! since the commit has its log shard locked.

use hedgerow_index::{IndexError, ValuePart};

use crate::engine::Engine;
use crate::index::space::Space;
use crate::row::Row;

/// Rows as they were, in the order in which they changed. Stays empty for indexes in memory, which
/// do not fail: of a commit of rows of both, those come last.
#[derive(Default)]
pub(crate) struct Undo<'a> {
    rows: Vec<RowBefore<'a>>,
}

/// A row as it was; `None` if there was none.
struct RowBefore<'a> {
    space: &'a Space,
    key: &'a [u8],
    row: Option<Vec<u8>>,
}

impl<'a> Undo<'a> {
    /// Keeps a row that is about to change.
    pub(crate) fn remember(&mut self, space: &'a Space, key: &'a [u8]) -> Result<(), IndexError> {
        if space.index.tree().is_some() {
            let row = space.index.get(key, ValuePart::Whole, <[u8]>::to_vec)?;
            self.rows.push(RowBefore { space, key, row });
        }
        Ok(())
    }

    /// Makes all rows what they were.
    pub(crate) fn run(self, engine: &Engine) -> Result<(), IndexError> {
        let _reserve_use = engine.pages().map(|pages| pages.allow_reserve_use());
        let mut buffer = Vec::new();
        let expiries = &engine.expiries;
        for RowBefore { space, key, row } in self.rows.into_iter().rev() {
            match row {
                None => space.remove_row(expiries, &engine.watches, None, key, &mut buffer)?,
                Some(row) => {
                    let expiry_ms = Row::new(&row).expiry_ms();
                    space.install(expiries, None, key, expiry_ms, &mut buffer, |new| {
                        new.extend_from_slice(&row);
                    })?;
                }
            }
        }
        Ok(())
    }
}
