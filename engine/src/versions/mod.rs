//! Rows as they were: what lets a reader see the database as it was at one moment.
//!
//! An index has the newest row of each key and nothing else. A **snapshot** is a moment, between
//! two commits, that somebody reads at. While it lives, each write keeps the row that it replaces
//! in the **version store** of its keyspace, before the index changes. A reader of the snapshot
//! takes a row from the index if it is not younger than the moment, and asks the store otherwise.
//!
//! ```text
//!              index: key ─► newest row                         version store: key ─► chain
//!
//!   reader at 15:  apple ─► row of 12    not younger: take it
//!                  pear  ─► row of 31    younger ───────────────► [7, 22) row, [22, 31) row
//!                  plum  ─► nothing      was there one? ────────► [9, 18) row
//! ```
//!
//! * `read` and `scan` are how a snapshot reads: keys, and ranges.
//! * `live` has what a snapshot is, and `registry` those that are open: opening them, ending them.
//! * `store` has the kept versions of one keyspace in order of keys, `chain` those of one key.
//! * `lists` knows which versions a snapshot is the newest reader of. When it closes, each goes to
//!   the list of the next older snapshot that can see it, or is freed: also in the middle.
//! * `intents` has the keys of transactions that are about to commit.
//!
//! **A moment is a cut.** A writer holds its log shard's mutex while it takes a timestamp and
//! changes the index. A snapshot takes all of these mutexes at once; the newest timestamp that was
//! given out is its moment, and every later commit gets a greater one. So the snapshot sees all of
//! a commit or nothing, sees each commit that returned before, and waits for no more than the
//! writes that are under way. (A removal of a large range changes the index without a shard: the
//! snapshot waits for its end.)
//!
//! **Nobody pays while nobody looks.** Without a snapshot a write loads one counter more.
//!
//! **Memory is bounded.** When versions take more than `version_memory`, the oldest snapshot is
//! ended: its next call says so. Writers go on. Files hold the pages of a keyspace that was cleared
//! while a snapshot sees it, and nothing else for readers.

pub(crate) mod chain;
pub(crate) mod intents;
#[cfg(test)]
mod interleavings;
pub(crate) mod lists;
pub(crate) mod live;
pub(crate) mod open;
pub(crate) mod read;
pub(crate) mod registry;
pub(crate) mod scan;
pub(crate) mod store;
