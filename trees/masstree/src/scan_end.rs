//! Where the range of a scan ends, and which entries of a node lie before that.

use std::cmp::Ordering;

use hedgerow_index::KeyBound;

use crate::key::{Key, LONG};
use crate::node::border::LAYER;
use crate::snapshot::Snapshot;

impl Snapshot<'_> {
    /// The entries of a node before the end, in a layer whose keys begin with `prefix`: those below
    /// the returned index forwards, those from it on in reverse; and whether the scan ends in this
    /// node. A layer through which the end passes counts as before it.
    ///
    /// Compares one entry unless the end is in the node.
    #[inline]
    pub(crate) fn entries_before<const FORWARD: bool>(
        &self,
        end: KeyBound<'_>,
        prefix: &[u8],
    ) -> (usize, bool) {
        let entries = &self.entries[..self.count];
        let (all, none) = if FORWARD {
            (entries.len(), 0)
        } else {
            (0, entries.len())
        };
        // All keys of a layer are longer than its prefix.
        let offset = prefix.len();
        match prefix.cmp(&end.key[..offset.min(end.key.len())]) {
            Ordering::Less if FORWARD => return (all, false),
            Ordering::Greater if !FORWARD => return (all, false),
            Ordering::Equal => {}
            Ordering::Less | Ordering::Greater => return (none, true),
        }
        let KeyBound { key, inclusive } = end;
        let end = Key::at(key, offset);
        let is_inside = if FORWARD {
            entries.last().is_none_or(|last| last.slice < end.slice())
        } else {
            entries.first().is_none_or(|last| last.slice > end.slice())
        };
        if is_inside {
            return (all, false);
        }
        let class = end.class();
        let at = self.lower_bound(end.slice(), class);
        let same = entries
            .get(at)
            .filter(|entry| (entry.slice, entry.length.min(LONG)) == (end.slice(), class));
        let is_same_before = same.is_some_and(|entry| {
            let rest = if class == LONG { end.suffix() } else { &[] };
            entry.length == LAYER
                || match entry.suffix_or_empty().cmp(rest) {
                    Ordering::Less => FORWARD,
                    Ordering::Equal => inclusive,
                    Ordering::Greater => !FORWARD,
                }
        });
        if FORWARD {
            (at + usize::from(is_same_before), at < entries.len())
        } else {
            let is_same_behind = same.is_some() && !is_same_before;
            (at + usize::from(is_same_behind), at > 0 || same.is_some())
        }
    }
}
