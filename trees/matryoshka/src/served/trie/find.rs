//! Looking up keys: one, or many side by side.

use hedgerow_simd::{Kernel, Task};
use hedgerow_sync::epoch::Guard;

use super::bucket::Bucket;
use super::entry::{Entry, entry, is_long, prefetch};
use super::item::Item;
use super::layer::Layer;
use super::map::MatryoshkaIndex;
use super::slice::slice;
use crate::served::Capacity;
use crate::served::tree::get_many::{Lookup, Progress, run_lookups};

/// Where the word of a slice leads the lookup of a key.
enum Resolved<'g, C: Capacity> {
    /// The word of an item, whose key is still to be compared.
    Item(u64),
    Layer(Layer<'g, C>),
    Nothing,
}

/// What `word`, found for the slice at `offset`, means for `key`.
///
/// # Safety
///
/// As for [`entry`].
#[inline(always)]
unsafe fn resolve<'g, C: Capacity>(word: u64, key: &[u8], offset: usize) -> Resolved<'g, C> {
    // SAFETY: as the caller promises.
    let layer = match unsafe { entry::<C>(word) } {
        Entry::Item(_) => return Resolved::Item(word),
        Entry::Layer(layer) => layer,
        Entry::Bucket(bucket) => match in_bucket(&bucket, key, offset) {
            Some(resolved) => return resolved,
            // SAFETY: the bucket names the layer; the same guard keeps both.
            None => unsafe { Layer::load(bucket.layer) },
        },
    };
    // Whether the key has the layer's prefix is left to the comparison with an item.
    if key.len() > layer.prefix.len() {
        Resolved::Layer(layer)
    } else {
        Resolved::Nothing
    }
}

/// `None` when the key can only be in the bucket's layer.
#[inline(always)]
fn in_bucket<'g, C: Capacity>(
    bucket: &Bucket<'g>,
    key: &[u8],
    offset: usize,
) -> Option<Resolved<'g, C>> {
    if let Some(at) = bucket.find(key) {
        return Some(Resolved::Item(bucket.word(at)));
    }
    (bucket.layer == 0 || !is_long(key, offset)).then_some(Resolved::Nothing)
}

/// The item of `key`, as a word, if it is that key's.
///
/// # Safety
///
/// As for [`entry`].
#[inline(always)]
unsafe fn matching_item(word: u64, key: &[u8]) -> Option<u64> {
    // SAFETY: as the caller promises.
    let item = unsafe { Item::load(word) };
    (item.key == key).then_some(word)
}

/// `get`, for a kernel: the word of the key's item.
pub(crate) struct Find<'a, C: Capacity>(pub(crate) &'a MatryoshkaIndex<C>, pub(crate) &'a [u8]);

impl<C: Capacity> Task for Find<'_, C> {
    type Output = Option<u64>;

    #[inline(always)]
    fn run<N: Kernel>(self) -> Option<u64> {
        let Self(index, key) = self;
        'top: loop {
            let (mut tree, mut offset) = (&index.tree, 0);
            loop {
                let Ok(word) = tree.get::<N>(slice(key, offset), &index.events) else {
                    continue 'top;
                };
                // SAFETY: read just now, under the caller's guard.
                match unsafe { resolve::<C>(word?, key, offset) } {
                    // SAFETY: as above.
                    Resolved::Item(word) => return unsafe { matching_item(word, key) },
                    Resolved::Nothing => return None,
                    Resolved::Layer(layer) => (tree, offset) = (layer.tree, layer.prefix.len()),
                }
            }
        }
    }
}

/// Items that are prefetched before they are compared, so that their misses overlap.
const DELAY: usize = 8;

/// `get_many`, for a kernel.
pub(crate) struct FindMany<'a, C: Capacity, F>(
    pub(crate) &'a MatryoshkaIndex<C>,
    pub(crate) &'a [&'a [u8]],
    pub(crate) &'a Guard,
    pub(crate) F,
);

impl<C: Capacity, F: FnMut(usize, Option<Item<'_>>)> Task for FindMany<'_, C, F> {
    type Output = ();

    #[inline(always)]
    fn run<N: Kernel>(self) {
        let Self(index, keys, _guard, mut read) = self;
        let mut show = |number: usize, word: Option<u64>| {
            // SAFETY: found under the guard held here.
            let item =
                |word| unsafe { matching_item(word, keys[number]).map(|word| Item::load(word)) };
            read(number, word.and_then(item));
        };
        let (mut waiting, mut found) = ([(0, 0); DELAY], 0);
        let start = |number: usize| Lookup::new(&index.tree, slice(keys[number], 0), 0);
        run_lookups::<N, _>(keys.len(), start, |number, offset, progress| {
            let key = keys[number];
            let resolved = match progress {
                // SAFETY: read and validated just now, under the guard held here.
                Progress::Done(Some(word)) => unsafe { resolve::<C>(word, key, offset) },
                Progress::Done(None) => Resolved::Nothing,
                _ => Find(index, key)
                    .run::<N>()
                    .map_or(Resolved::Nothing, Resolved::Item),
            };
            match resolved {
                Resolved::Layer(layer) => {
                    let offset = layer.prefix.len();
                    return Some(Lookup::new(layer.tree, slice(key, offset), offset));
                }
                Resolved::Nothing => show(number, None),
                Resolved::Item(word) => {
                    prefetch(word);
                    let place = &mut waiting[found % DELAY];
                    if found >= DELAY {
                        show(place.0, Some(place.1));
                    }
                    *place = (number, word);
                    found += 1;
                }
            }
            None
        });
        for &(number, word) in &waiting[..found.min(DELAY)] {
            show(number, Some(word));
        }
    }
}
