//! Visiting pairs in order, one leaf line at a time.
//!
//! Pages have no links to their neighbours, which splits and merges would have to maintain. The
//! descent records the separators on both sides of the page, and the scan finds the next page by
//! another descent, from a key just beyond. The scan copies a line, validates the page's version
//! and only then shows the pairs; when validation fails, it descends again to where it was. So no
//! latch is held while a visitor runs, and all pairs shown from one line were there at one moment.

use std::ops::ControlFlow;

use hedgerow_index::Direction;
use hedgerow_simd::Kernel;

use super::{Event, Events, PageReference, Tree};
use crate::key_bounds::KeyBounds;
use crate::planted::{PlantedBug, planted};
use crate::served::Capacity;
use crate::served::node::leaf::MOST_KEYS;
use crate::served::node::node_key::SharedNodeKey;

/// The pairs of one line, in the direction of a scan.
struct Copied<L> {
    pairs: [(L, u64); MOST_KEYS],
    count: usize,
}

/// Copies what a leaf line holds from `cursor` on; nothing is validated.
#[inline(always)]
fn copy<L: SharedNodeKey>(
    reference: &PageReference<'_, L>,
    index: usize,
    cursor: L,
    direction: Direction,
) -> Copied<L> {
    let leaf = reference.page.leaf(index);
    let mut copied = Copied {
        pairs: [(L::MIN, 0); MOST_KEYS],
        count: 0,
    };
    let held = leaf.count();
    for number in 0..held {
        let at = match direction {
            Direction::Forward => number,
            Direction::Reverse => held - 1 - number,
        };
        let pair = leaf.pair(at);
        let wanted = match direction {
            Direction::Forward => pair.0 >= cursor,
            Direction::Reverse => pair.0 <= cursor,
        };
        if wanted {
            copied.pairs[copied.count] = pair;
            copied.count += 1;
        }
    }
    copied
}

impl<C: Capacity, L: SharedNodeKey> Tree<C, L> {
    /// Shows the pairs from `cursor` on, some at a time, until `visit` breaks.
    ///
    /// # Errors
    ///
    /// The tree was a layer that the trie removed: what is left to show, from this key on, is
    /// elsewhere.
    #[inline(always)]
    pub(crate) fn scan<N: Kernel, B>(
        &self,
        mut cursor: L,
        direction: Direction,
        events: &Events,
        mut visit: impl FnMut(&[(L, u64)]) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, L> {
        'descent: loop {
            let mut bounds = KeyBounds::NONE;
            let Ok(reference) = self.find_page::<N>(cursor, events, &mut bounds) else {
                return Err(cursor);
            };
            let page = reference.page;
            let mut next = Some(page.route::<N>(cursor));
            while let Some(index) = next {
                next = match direction {
                    Direction::Forward => Some(index + 1).filter(|&next| next < page.lines()),
                    Direction::Reverse => index.checked_sub(1),
                };
                if let Some(next) = next {
                    page.leaf(next).prefetch();
                }
                let copied = copy(&reference, index, cursor, direction);
                let changed = !page.version.validate(reference.version);
                if changed && !planted(PlantedBug::ScanNotValidated) {
                    events.count(Event::Retry as usize);
                    continue 'descent;
                }
                let pairs = &copied.pairs[..copied.count];
                let Some(last) = pairs.last() else { continue };
                if let ControlFlow::Break(end) = visit(pairs) {
                    return Ok(ControlFlow::Break(end));
                }
                match last.0.beyond(direction) {
                    Some(key) => cursor = key,
                    None => return Ok(ControlFlow::Continue(())),
                }
            }
            let edge = match direction {
                Direction::Forward => bounds.high.and_then(|high| high.beyond(direction)),
                // Keys of the page before are at or below the separator.
                Direction::Reverse => bounds.low,
            };
            match edge {
                Some(edge) => cursor = edge,
                None => return Ok(ControlFlow::Continue(())),
            }
        }
    }
}
