//! Changing one key: its item, and what holds the item.

use hedgerow_memory::Placement;
use hedgerow_simd::{Kernel, Task};
use hedgerow_sync::epoch::Guard;

use super::bucket::Bucket;
use super::entry::{Entry, entry, is_long, retire};
use super::fold::may_fold;
use super::item::Item;
use super::layer::Layer;
use super::map::MatryoshkaIndex;
use super::slice::{shared_prefix, slice, slice_offset};
use super::tag::LAYER_TAG;
use crate::served::tree::Tree;
use crate::served::{Capacity, Change};

/// The outcome of a change in one tree.
enum Step<'g, C: Capacity, R> {
    Done {
        result: R,
        /// Whether the layer may be folded now: it holds less than before, or a layer alone.
        folds: bool,
    },
    /// The key belongs into this layer.
    Descend(Layer<'g, C>),
}

/// Blocks that a change unlinks, to be retired when it is done: an item, and its bucket.
#[derive(Default)]
struct Unlinked([Option<u64>; 2]);

/// `update`, for a kernel. `decide` makes the new item.
pub(crate) struct Update<'a, C: Capacity, F>(
    pub(crate) &'a MatryoshkaIndex<C>,
    pub(crate) &'a [u8],
    pub(crate) &'a Guard,
    pub(crate) F,
);

impl<C, R, F> Task for Update<'_, C, F>
where
    C: Capacity,
    F: FnMut(Option<&[u8]>) -> Change<R>,
{
    type Output = R;

    #[inline(always)]
    fn run<N: Kernel>(self) -> R {
        let Self(index, key, guard, mut decide) = self;
        'top: loop {
            let (mut tree, mut offset) = (&index.tree, 0);
            loop {
                let mut unlinked = Unlinked::default();
                let step = tree.modify::<N, _>(slice(key, offset), &index.events, guard, |word| {
                    change::<C, R>(word, key, offset, &mut decide, &mut unlinked)
                });
                for word in unlinked.0.into_iter().flatten() {
                    // SAFETY: the change is done, and named what it unlinked.
                    unsafe { retire::<C>(guard, word) };
                }
                match step {
                    Err(_) => continue 'top,
                    Ok(Step::Descend(layer)) => (tree, offset) = (layer.tree, layer.prefix.len()),
                    Ok(Step::Done { result, folds }) => {
                        if folds && offset > 0 && may_fold::<C>(tree) {
                            index.fold_layers::<N>(key, guard);
                        }
                        return result;
                    }
                }
            }
        }
    }
}

fn unchanged<'g, C: Capacity, R>(result: R) -> Change<Step<'g, C, R>> {
    let folds = false;
    Change::Keep(Step::Done { result, folds })
}

fn put<'g, C: Capacity, R>(word: u64, result: R) -> Change<Step<'g, C, R>> {
    let folds = false;
    Change::Put(word, Step::Done { result, folds })
}

/// Decides about a key in the tree whose slices begin at `offset`; runs under the latch of the page
/// that holds `word`.
#[inline(always)]
fn change<'g, C: Capacity, R>(
    word: Option<u64>,
    key: &[u8],
    offset: usize,
    decide: &mut impl FnMut(Option<&[u8]>) -> Change<R>,
    unlinked: &mut Unlinked,
) -> Change<Step<'g, C, R>> {
    let Some(word) = word else {
        return match decide(None) {
            Change::Put(item, result) => put(item, result),
            Change::Keep(result) | Change::Remove(result) => unchanged(result),
        };
    };
    // SAFETY: read under a latch, under the operation's guard.
    let present = unsafe { entry::<C>(word) };
    match &present {
        Entry::Item(item) if item.key == key => {
            let decision = decide(Some(item.value));
            if !matches!(decision, Change::Keep(_)) {
                unlinked.0[0] = Some(word);
            }
            return match decision {
                Change::Put(item, result) => put(item, result),
                Change::Keep(result) => unchanged(result),
                Change::Remove(result) => {
                    let folds = true;
                    Change::Remove(Step::Done { result, folds })
                }
            };
        }
        Entry::Bucket(bucket) => {
            if let Some(at) = bucket.find(key) {
                return in_bucket(word, bucket, at, decide, unlinked);
            }
        }
        _ => {}
    }
    if let Some(layer) = layer_of_long_keys(&present, key, offset)
        && key.len() > layer.prefix.len()
        && key.starts_with(layer.prefix)
    {
        return Change::Keep(Step::Descend(layer));
    }
    match decide(None) {
        Change::Keep(result) | Change::Remove(result) => unchanged(result),
        Change::Put(item, result) => {
            if matches!(present, Entry::Bucket(_)) {
                unlinked.0[1] = Some(word);
            }
            let word_of_both = insert_beside::<C>(word, &present, key, item, offset);
            // A layer takes the place of items of which no key ended within the slice: it may be
            // all that this layer holds.
            let folds = word_of_both & LAYER_TAG != 0;
            Change::Put(word_of_both, Step::Done { result, folds })
        }
    }
}

/// The layer, if there is one, of the longer keys of a slice, and `key` is one of them.
fn layer_of_long_keys<'g, C: Capacity>(
    present: &Entry<'g, C>,
    key: &[u8],
    offset: usize,
) -> Option<Layer<'g, C>> {
    match present {
        Entry::Layer(layer) => Some(*layer),
        // SAFETY: a linked bucket names a linked layer.
        Entry::Bucket(bucket) if bucket.layer != 0 => Some(unsafe { Layer::load(bucket.layer) }),
        _ => None,
    }
    .filter(|_| is_long(key, offset))
}

/// Decides about the key of item `at` of a bucket.
fn in_bucket<'g, C: Capacity, R>(
    word: u64,
    bucket: &Bucket<'_>,
    at: usize,
    decide: &mut impl FnMut(Option<&[u8]>) -> Change<R>,
    unlinked: &mut Unlinked,
) -> Change<Step<'g, C, R>> {
    let old = bucket.word(at);
    match decide(Some(bucket.item(at).value)) {
        Change::Keep(result) => unchanged(result),
        Change::Put(item, result) => {
            bucket.replace(at, item);
            unlinked.0[0] = Some(old);
            unchanged(result)
        }
        Change::Remove(result) => {
            unlinked.0 = [Some(old), Some(word)];
            let mut items = bucket.words();
            items.remove(at);
            // SAFETY: the bucket's other items are live.
            let rest = unsafe { entry_word(&items, bucket.layer) };
            let folds = true;
            Change::Put(rest, Step::Done { result, folds })
        }
    }
}

/// The word for some items and perhaps a layer.
///
/// # Safety
///
/// `items` are words of live items, ascending by key; there is an item or a layer.
pub(crate) unsafe fn entry_word(items: &[u64], layer: u64) -> u64 {
    match (items, layer) {
        ([], layer) => layer,
        ([item], 0) => *item,
        // SAFETY: as the caller promises.
        _ => unsafe { Bucket::store(items, layer) },
    }
}

/// Adds a new item of `key` to what a word names already; the word of both.
fn insert_beside<C: Capacity>(
    word: u64,
    present: &Entry<'_, C>,
    key: &[u8],
    item: u64,
    offset: usize,
) -> u64 {
    let (mut items, layer, at) = match present {
        Entry::Item(other) => (vec![word], 0, usize::from(other.key < key)),
        Entry::Layer(_) => (Vec::new(), word, 0),
        Entry::Bucket(bucket) => (bucket.words(), bucket.layer, bucket.rank(key)),
    };
    if layer != 0 && is_long(key, offset) {
        // The key is none of the layer's: it lacks the layer's prefix, or does not go on after it.
        // SAFETY: all items, and the layer, are linked.
        return unsafe { entry_word(&items, insert_layer_above::<C>(layer, key, item)) };
    }
    items.insert(at, item);
    // SAFETY: the new item is live, and the others are linked.
    let long = |item: &u64| is_long(unsafe { Item::load(*item) }.key, offset);
    // Longer keys of one slice sort behind shorter ones.
    let short = items.iter().take_while(|item| !long(item)).count();
    if items.len() <= C::BUCKET || layer != 0 || short == items.len() {
        // SAFETY: as above.
        return unsafe { entry_word(&items, layer) };
    }
    // SAFETY: as above.
    unsafe { entry_word(&items[..short], store_layer::<C>(&items[short..])) }
}

/// Where a layer for two keys begins: at the last slice at or before which they differ, and both
/// still have a byte.
pub(crate) fn layer_offset(key: &[u8], other: &[u8]) -> usize {
    let shorter = key.len().min(other.len());
    slice_offset(shared_prefix(key, other).min(shorter.saturating_sub(1)))
}

/// A layer for items whose keys share more than a slice; its word.
///
/// # Safety
///
/// `items` are words of live items, ascending by key, at least one.
unsafe fn store_layer<C: Capacity>(items: &[u64]) -> u64 {
    // SAFETY: as the caller promises.
    let key = |item: &u64| unsafe { Item::load(*item) }.key;
    let (first, last) = (key(&items[0]), key(&items[items.len() - 1]));
    let prefix = &first[..layer_offset(first, last)];
    let of = |item: &u64| slice(key(item), prefix.len());
    let groups = items.chunk_by(|one, other| of(one) == of(other));
    // SAFETY: as the caller promises.
    let pairs = groups.map(|group| (of(&group[0]), unsafe { entry_word(group, 0) }));
    Layer::store(
        prefix,
        Tree::<C>::of(Placement::Merged, &pairs.collect::<Vec<_>>()),
    )
}

/// A layer above `layer`, into which `key` does not lead, for that layer and the new item; its
/// word.
fn insert_layer_above<C: Capacity>(layer: u64, key: &[u8], item: u64) -> u64 {
    // SAFETY: linked, and kept by the operation's guard.
    let old = unsafe { Layer::<C>::load(layer) }.prefix;
    let prefix = &key[..layer_offset(key, old)];
    let (before, new) = (slice(old, prefix.len()), slice(key, prefix.len()));
    let tree = match before.cmp(&new) {
        // The key ends within the slice, and zeros follow where it ends.
        // SAFETY: the new item is live.
        std::cmp::Ordering::Equal => Tree::<C>::of(
            Placement::Merged,
            &[(new, unsafe { entry_word(&[item], layer) })],
        ),
        std::cmp::Ordering::Less => Tree::of(Placement::Merged, &[(before, layer), (new, item)]),
        std::cmp::Ordering::Greater => Tree::of(Placement::Merged, &[(new, item), (before, layer)]),
    };
    Layer::store(prefix, tree)
}
