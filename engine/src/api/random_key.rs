//! Drawing a key at random, each as likely as any other.
//!
//! Nodes do not count the rows below them, so no index finds a key by its position, and a walk from
//! the root that takes children at random prefers keys of sparse parts. In a keyspace of few rows a
//! draw counts rows up to a random position, which is exact. In one of many rows, *cursors* divide
//! the keyspace into runs of similar length, and a draw moves a random cursor forward by a random
//! number of rows. Steps do not depend on keys, so over many draws a cursor stops at each row
//! equally often; behind the last row it continues at the first. A cursor is a key, not a place in
//! a node, so it also finds rows that were inserted later.

use std::ops::{Bound, ControlFlow};

use hedgerow_index::{Direction, ScanRange};

use crate::api::iterate;
use crate::api::keyspace::Keyspace;
use crate::engine::Engine;
use crate::error::Result;
use crate::index::cursors::Placed;
use crate::index::space::Space;

/// Rows up to which positions are counted out.
const FEW_ROWS: u64 = 2048;
const CURSORS: usize = 64;
/// A cursor moves by 1 to so many rows: some leaves of any tree.
const LONGEST_STEP: u64 = 512;

impl Keyspace {
    /// A key drawn at random from those whose rows have not expired; `None` if there is none.
    /// `below` returns a random number below its argument, each with the same probability.
    ///
    /// Up to 2,048 rows each draw gives every key with the same probability. Beyond that keys are
    /// equally likely in the long run; draws are not independent, as each continues up to 512 rows
    /// behind one of 64 earlier ones. Walks as many keys: tens of microseconds for rows in memory.
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index) where keys cannot be read.
    pub fn random_key(&self, mut below: impl FnMut(u64) -> u64) -> Result<Option<Vec<u8>>> {
        let space = self.space()?;
        let rows = space.len();
        if rows <= FEW_ROWS {
            return count_out(&self.engine, &space, rows, &mut below);
        }
        // `below` is the caller's, and is not called under the lock.
        let (which, step) = (below(CURSORS as u64) as usize, 1 + below(LONGEST_STEP));
        let cursors = &space.cursors;
        let is_stale = cursors.lock().is_stale(rows);
        if is_stale {
            let mut keys = space.index.as_dyn().partition(CURSORS)?;
            // The first run begins with the first key there is.
            keys.insert(0, Vec::new());
            *cursors.lock() = Placed { keys, rows };
        }
        let from = {
            let placed = cursors.lock();
            placed.keys[which % placed.keys.len()].clone()
        };
        let drawn = go_on(&self.engine, &space, &from, step)?;
        if let Some(drawn) = &drawn {
            let mut placed = cursors.lock();
            let which = which % placed.keys.len();
            placed.keys[which].clone_from(drawn);
        }
        Ok(drawn)
    }
}

/// The live key at a random one of so many positions.
fn count_out(
    engine: &Engine,
    space: &Space,
    rows: u64,
    below: &mut impl FnMut(u64) -> u64,
) -> Result<Option<Vec<u8>>> {
    let all = (Bound::Unbounded, Bound::Unbounded);
    let mut rows = rows;
    while rows > 0 {
        match key_at(engine, space, all, below(rows))? {
            Ok(key) => return Ok(Some(key)),
            // Some have expired, or went: that of all positions it was one of theirs favours none
            // of the others.
            Err(live) => rows = live,
        }
    }
    Ok(None)
}

/// The live key so many steps behind another; those at the beginning follow the last.
fn go_on(engine: &Engine, space: &Space, from: &[u8], step: u64) -> Result<Option<Vec<u8>>> {
    let behind = (Bound::Excluded(from), Bound::Unbounded);
    let passed = match key_at(engine, space, behind, step - 1)? {
        Ok(key) => return Ok(Some(key)),
        Err(passed) => passed,
    };
    let (mut left, all) = (step - 1 - passed, (Bound::Unbounded, Bound::Unbounded));
    loop {
        match key_at(engine, space, all, left)? {
            Ok(key) => return Ok(Some(key)),
            Err(0) => return Ok(None),
            // Nearly all rows have expired.
            Err(live) => left %= live,
        }
    }
}

/// The live key at a position between bounds; or how many live keys there are, if they are fewer.
fn key_at(
    engine: &Engine,
    space: &Space,
    bounds: (Bound<&[u8]>, Bound<&[u8]>),
    position: u64,
) -> Result<std::result::Result<Vec<u8>, u64>> {
    let (mut passed, mut found) = (0, None);
    let range = ScanRange::between(bounds, Direction::Forward);
    iterate::scan_keys(engine, space, &range, |key| {
        if passed == position {
            found = Some(key.to_vec());
            return ControlFlow::Break(());
        }
        passed += 1;
        ControlFlow::Continue(())
    })?;
    Ok(found.ok_or(passed))
}
