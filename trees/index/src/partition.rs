//! Cutting the key space into parts of similar numbers of keys, for indexes whose nodes do not
//! count the keys below them.
//!
//! A tree of tries has subtrees of any size at any depth: an entry may lead to one key or to
//! millions. So the number of keys below a node is estimated: of the children on one way down each
//! is taken for as large as those beside it (D. Knuth, Estimating the efficiency of backtrack
//! programs, 1975). The part that seems largest is opened next: it is replaced by what its node
//! leads to. What is opened corrects the estimate. This ends when no part stands out, or after so
//! many nodes and bytes: the work does not grow with the number of keys.

use std::collections::BinaryHeap;

/// A part is opened if it seems larger than one of so many of each part that is wanted.
const OVERSAMPLING: u64 = 8;
/// Nodes that an estimate opens.
const DEEPEST: usize = 64;
/// Bytes of the keys at which parts begin, beyond which none is opened.
const MOST_BYTES: usize = 16 << 20;

/// What a node leads to, one for each entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Below<N> {
    /// So many keys.
    Keys(u64),
    /// Another node: a child, or the root of a tree of its own.
    Node(N),
}

/// What a node that is opened calls, in key order, with a key that is not above any of those that
/// an entry leads to, and with what the entry leads to.
pub type Add<'f, N> = dyn FnMut(&[u8], Below<N>) + 'f;

/// A piece of the key space.
struct Part<N> {
    /// No key of it is lower.
    from: Vec<u8>,
    /// How many there seem to be; 0 of a part whose pieces are parts of their own.
    keys: u64,
    /// The node that leads to them; `None` if it cannot be opened, or was.
    node: Option<N>,
}

/// The parts that the key space is cut into so far.
struct Parts<N> {
    parts: Vec<Part<N>>,
    /// Those that can be opened: how large each seems, and its place in `parts`.
    closed: BinaryHeap<(u64, usize)>,
    /// How many keys there seem to be.
    keys: u64,
    /// One of so many parts of all keys is small enough.
    pieces: u64,
    /// Bytes of the keys at which parts begin.
    bytes: usize,
}

impl<N> Parts<N> {
    /// Takes the part that seems largest, if it is not small enough.
    fn largest(&mut self) -> Option<usize> {
        let (keys, at) = self.closed.pop()?;
        (keys > self.keys / self.pieces && self.bytes <= MOST_BYTES).then_some(at)
    }

    fn add(&mut self, part: Part<N>) {
        self.bytes += part.from.len();
        if part.node.is_some() {
            self.closed.push((part.keys, self.parts.len()));
        }
        self.keys = self.keys.saturating_add(part.keys);
        self.parts.push(part);
    }

    /// Puts what a part's node leads to in its place. A node that leads to nothing, as it was
    /// unlinked meanwhile, stays as it is.
    fn open(&mut self, at: usize, open: &mut impl FnMut(&N, &mut Add<'_, N>)) {
        let Some(node) = self.parts[at].node.take() else {
            return;
        };
        let most = self.keys / self.pieces;
        let mut entries: Vec<(Vec<u8>, Below<N>)> = Vec::new();
        open(&node, &mut |from, below| {
            // Keys that follow each other are one part as long as that is small enough.
            if let Below::Keys(more) = &below
                && let Some((_, Below::Keys(keys))) = entries.last_mut()
                && keys.saturating_add(*more) <= most
            {
                *keys += more;
                return;
            }
            entries.push((from.to_vec(), below));
        });
        if entries.is_empty() {
            return;
        }
        let part = &mut self.parts[at];
        let (begin, keys) = (
            std::mem::take(&mut part.from),
            std::mem::take(&mut part.keys),
        );
        self.keys = self.keys.saturating_sub(keys);
        self.bytes -= begin.len();
        for (from, below) in entries {
            let (keys, node) = match below {
                Below::Keys(keys) => (keys, None),
                Below::Node(node) => (estimate(&node, open), Some(node)),
            };
            // The first child's entry may not say where the part begins.
            let from = if from < begin { begin.clone() } else { from };
            self.add(Part { from, keys, node });
        }
    }

    /// Up to `wanted - 1` keys at which parts begin, with similar numbers of keys in between.
    fn cuts(mut self, wanted: u64) -> Vec<Vec<u8>> {
        self.parts.retain(|part| part.keys > 0);
        self.parts.sort_by(|one, other| one.from.cmp(&other.from));
        let total: u128 = self.parts.iter().map(|part| u128::from(part.keys)).sum();
        let (mut cuts, mut before, mut cut_at) = (Vec::new(), 0, 0);
        for part in self.parts {
            let share = before * u128::from(wanted) / total;
            if share > cut_at && cuts.last() != Some(&part.from) {
                cuts.push(part.from);
                cut_at = share;
            }
            before += u128::from(part.keys);
        }
        cuts
    }
}

/// How many keys there seem to be below a node, by one way down.
fn estimate<N>(node: &N, open: &mut impl FnMut(&N, &mut Add<'_, N>)) -> u64 {
    // Nodes taken for as large as the one on the way, and keys of those above.
    let (mut alike, mut keys) = (1_u64, 0_u64);
    let mut below = None;
    for _ in 0..DEEPEST {
        let (mut own, mut nodes) = (0_u64, Vec::new());
        open(
            below.as_ref().unwrap_or(node),
            &mut |_, entry| match entry {
                Below::Keys(keys) => own = own.saturating_add(keys),
                Below::Node(node) => nodes.push(node),
            },
        );
        keys = keys.saturating_add(alike.saturating_mul(own));
        if nodes.is_empty() {
            break;
        }
        alike = alike.saturating_mul(nodes.len() as u64);
        below = Some(nodes.swap_remove(nodes.len() / 2));
    }
    keys.max(1)
}

/// Up to `parts - 1` ascending keys that cut the key space below `root` into parts of similar
/// numbers of keys, however deep they lie. `open` tells what a node leads to, and is called for
/// some 32 nodes of each part, and on one way down, of at most 64 nodes, from each node that they
/// lead to.
///
/// # Examples
///
/// ```
/// use hedgerow_index::{Add, Below, split_keys};
///
/// // A tree of letters, in which nearly all keys begin with "ab".
/// let open = |prefix: &String, add: &mut Add<'_, String>| {
///     for letter in 'a'..='e' {
///         let from = format!("{prefix}{letter}");
///         let has_more = ["", "a"].contains(&prefix.as_str()) && letter < 'c';
///         let below = if has_more { Below::Node(from.clone()) } else { Below::Keys(1) };
///         add(from.as_bytes(), below);
///     }
/// };
/// let cuts = split_keys(3, String::new(), open);
/// assert!(cuts.len() == 2 && cuts.is_sorted());
/// ```
pub fn split_keys<N>(
    parts: usize,
    root: N,
    mut open: impl FnMut(&N, &mut Add<'_, N>),
) -> Vec<Vec<u8>> {
    if parts < 2 {
        return Vec::new();
    }
    let pieces = (parts as u64).saturating_mul(OVERSAMPLING);
    let mut cut = Parts {
        parts: Vec::new(),
        closed: BinaryHeap::new(),
        keys: 0,
        pieces,
        bytes: 0,
    };
    cut.add(Part {
        from: Vec::new(),
        keys: estimate(&root, &mut open),
        node: Some(root),
    });
    // Nodes on the ways to these pieces are opened, too.
    for _ in 0..pieces.saturating_mul(4) {
        let Some(largest) = cut.largest() else {
            break;
        };
        cut.open(largest, &mut open);
    }
    cut.cuts(parts as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node of a tree that is made up as it is opened: what its keys begin with.
    type Prefix = Vec<u8>;

    /// How many keys of a made-up tree lie in each part.
    fn sizes(cuts: &[Vec<u8>], keys: &[Vec<u8>]) -> Vec<usize> {
        let mut sizes = vec![0; cuts.len() + 1];
        for key in keys {
            sizes[cuts.partition_point(|cut| cut <= key)] += 1;
        }
        sizes
    }

    /// Entries of a node: the slices of two bytes that follow a prefix in some of the keys.
    fn open_sorted(keys: &[Vec<u8>], prefix: &Prefix, add: &mut Add<'_, Prefix>) {
        let behind = |key: &&Vec<u8>| key.starts_with(prefix);
        let mut slices: Vec<&[u8]> = keys
            .iter()
            .filter(behind)
            .map(|key| &key[..key.len().min(prefix.len() + 2)])
            .collect();
        slices.dedup();
        for slice in slices {
            let below = keys.iter().filter(|key| key.starts_with(slice)).count();
            match below {
                1 => add(slice, Below::Keys(1)),
                _ if slice == prefix.as_slice() => add(slice, Below::Keys(1)),
                _ => add(slice, Below::Node(slice.to_vec())),
            }
        }
    }

    #[test]
    fn parts_are_even_however_deep_keys_lie() {
        let shapes: [fn(u32) -> String; 3] = [
            |n| format!("{n:06}"),
            |n| format!("a long prefix that all have {n:06}"),
            |n| match n % 2 {
                0 => format!("prefix{n:06}"),
                _ => format!("prefix that is longer by far {n:06}"),
            },
        ];
        for shape in shapes {
            let mut keys: Vec<Vec<u8>> = (0..1_000).map(|n| shape(n).into_bytes()).collect();
            keys.sort();
            let cuts = split_keys(8, Vec::new(), |prefix: &Prefix, add| {
                open_sorted(&keys, prefix, add);
            });
            assert!(cuts.windows(2).all(|two| two[0] < two[1]), "{cuts:?}");
            let sizes = sizes(&cuts, &keys);
            assert_eq!(sizes.len(), 8, "{sizes:?}");
            assert!(
                sizes.iter().all(|size| (60..250).contains(size)),
                "{sizes:?}"
            );
        }
    }

    #[test]
    fn few_keys_and_few_parts_are_cut_as_far_as_they_go() {
        let keys: Vec<Vec<u8>> = vec![b"a".to_vec(), b"b".to_vec()];
        let cuts = |parts, keys: &[Vec<u8>]| {
            split_keys(parts, Vec::new(), |prefix: &Prefix, add| {
                open_sorted(keys, prefix, add);
            })
        };
        for parts in [0, 1] {
            assert!(cuts(parts, &keys).is_empty());
        }
        assert_eq!(cuts(2, &keys), [b"b".to_vec()]);
        assert_eq!(cuts(64, &keys), [b"b".to_vec()]);
        assert!(cuts(64, &[]).is_empty());
    }

    #[test]
    fn a_tree_without_end_takes_bounded_work() {
        let mut opened = 0;
        let cuts = split_keys(4, 0_u64, |depth, add| {
            opened += 1;
            let from = vec![b'a'; *depth as usize];
            add(&from, Below::Keys(1));
            add(&from, Below::Node(depth + 1));
        });
        assert!(cuts.is_sorted());
        assert!(opened < 4 * 8 * 4 * 70, "{opened} nodes");
    }
}
