//! The invariants of the trie, checked one by one, and its numbers.

use hedgerow_index::Statistics;
use hedgerow_sync::epoch;

use super::bucket::Bucket;
use super::entry::{Entry, entry, is_long};
use super::item::Item;
use super::layer::Layer;
use super::map::MatryoshkaIndex;
use super::slice::{SLICE_BYTES, shared_prefix, slice};
use crate::served::Capacity;
use crate::served::tree::Tree;
use crate::served::tree::verify::Shape;

/// A tree, what its keys begin with, and how many layers it lies below.
struct Seen<'g, C: Capacity> {
    tree: &'g Tree<C>,
    prefix: &'g [u8],
    depth: usize,
}

/// A writer has closed the layer that a walk is in.
struct Closed;

/// What one walk counted.
struct Counted {
    shape: Shape,
    trie: Trie,
    /// [`Closed`] if a writer closed a layer while the walk was in it: all keys below it were
    /// missed then, which may be all there are.
    walked: Result<(), Closed>,
}

/// Walks for one answer: beside writers who close layers all the time, the last one counts.
const MOST_WALKS: usize = 16;

/// What the trie consists of.
#[derive(Debug, Default, Clone, Copy)]
struct Trie {
    keys: usize,
    item_bytes: usize,
    buckets: usize,
    bucket_bytes: usize,
    layers: usize,
    layer_bytes: usize,
    deepest: usize,
}

impl Trie {
    fn add(&mut self, item: &Item<'_>) {
        self.keys += 1;
        self.item_bytes += hedgerow_memory::block_bytes(item.block_bytes());
    }
}

impl<C: Capacity> MatryoshkaIndex<C> {
    /// Shows every tree, for each of its slices the word, and the tree again. Layers are found by
    /// their words.
    fn walk<E>(
        &self,
        mut tree: impl FnMut(&Seen<'_, C>) -> Result<(), E>,
        mut word: impl FnMut(&Seen<'_, C>, u64, &Entry<'_, C>) -> Result<(), E>,
        mut seen_all: impl FnMut(&Seen<'_, C>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut stack = vec![Seen {
            tree: &self.tree,
            prefix: &[],
            depth: 0,
        }];
        while let Some(seen) = stack.pop() {
            tree(&seen)?;
            let pages = seen
                .tree
                .nodes()
                .into_iter()
                .filter_map(|node| node.pairs());
            for (slice, pair) in pages.flatten() {
                // SAFETY: read under the caller's guard, from a place that was in use.
                let present = unsafe { entry::<C>(pair) };
                word(&seen, slice, &present)?;
                let layer = match present {
                    Entry::Layer(layer) => Some(layer),
                    Entry::Bucket(bucket) if bucket.layer != 0 => {
                        // SAFETY: the bucket names the layer; the same guard keeps both.
                        Some(unsafe { Layer::load(bucket.layer) })
                    }
                    _ => None,
                };
                stack.extend(layer.map(|layer| Seen {
                    tree: layer.tree,
                    prefix: layer.prefix,
                    depth: seen.depth + 1,
                }));
            }
            seen_all(&seen)?;
        }
        Ok(())
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let _guard = epoch::pin();
        self.walk(
            |seen| {
                let within = |problem| format!("layer {:?}: {problem}", seen.prefix);
                seen.tree.verify().map_err(within)?;
                match seen.tree.keys_of_one_page() {
                    Some(0) if seen.depth > 0 => Err(within("is empty".to_owned())),
                    Some(1) if seen.depth > 0 && self.is_one_layer(seen.tree) => {
                        Err(within("has nothing but another layer".to_owned()))
                    }
                    _ => Ok(()),
                }
            },
            |seen, at, present| {
                check_entry(seen.prefix, at, present).map_err(|problem| {
                    format!("layer {:?}, slice {at:#018x}: {problem}", seen.prefix)
                })
            },
            |_| Ok(()),
        )
    }

    pub(crate) fn numbers(&self) -> Statistics {
        let mut counted = self.count();
        for _ in 1..MOST_WALKS {
            let Err(Closed) = counted.walked else { break };
            counted = self.count();
        }
        self.show(&counted.shape, &counted.trie)
    }

    /// Walks once.
    fn count(&self) -> Counted {
        let _guard = epoch::pin();
        let (mut shape, mut trie) = (Shape::default(), Trie::default());
        let walked = self.walk(
            |seen| {
                shape.add(seen.tree);
                Ok(())
            },
            |seen, _, present| {
                let mut layer = None;
                match present {
                    Entry::Item(item) => trie.add(item),
                    Entry::Layer(found) => layer = Some(*found),
                    Entry::Bucket(bucket) => {
                        (0..bucket.heads.len()).for_each(|at| trie.add(&bucket.item(at)));
                        trie.buckets += 1;
                        trie.bucket_bytes += hedgerow_memory::block_bytes(bucket.block_bytes());
                        // SAFETY: the bucket names the layer; the same guard keeps both.
                        layer = (bucket.layer != 0).then(|| unsafe { Layer::load(bucket.layer) });
                    }
                }
                if let Some(layer) = layer {
                    trie.layers += 1;
                    trie.layer_bytes += hedgerow_memory::block_bytes(layer.block_bytes());
                    trie.deepest = trie.deepest.max(seen.depth + 1);
                }
                Ok(())
            },
            |seen| match seen.depth > 0 && seen.tree.root().is_none() {
                true => Err(Closed),
                false => Ok(()),
            },
        );
        Counted {
            shape,
            trie,
            walked,
        }
    }

    fn show(&self, shape: &Shape, trie: &Trie) -> Statistics {
        let total = shape.node_bytes() + trie.item_bytes + trie.bucket_bytes + trie.layer_bytes;
        let mut statistics = Statistics::new();
        let numbers = [
            ("keys", trie.keys as f64, "Keys in the index."),
            (
                "bytes_per_key",
                total as f64 / trie.keys.max(1) as f64,
                "Bytes of everything, by keys.",
            ),
            (
                "item_bytes",
                trie.item_bytes as f64,
                "Bytes of keys with their values.",
            ),
            (
                "buckets",
                trie.buckets as f64,
                "Slices whose items lie in a bucket.",
            ),
            (
                "bucket_bytes",
                trie.bucket_bytes as f64,
                "Bytes of buckets.",
            ),
            ("layers", trie.layers as f64, "Trees below the first."),
            (
                "layer_bytes",
                trie.layer_bytes as f64,
                "Bytes of layers, without nodes.",
            ),
            (
                "deepest_layer",
                trie.deepest as f64,
                "Layers on the longest way down.",
            ),
        ];
        for (name, value, help) in numbers {
            statistics.push(name, value, help);
        }
        shape.push(&mut statistics, &self.events);
        statistics
    }
}

fn check_entry<C: Capacity>(prefix: &[u8], at: u64, present: &Entry<'_, C>) -> Result<(), String> {
    let here = |key: &[u8]| {
        let goes_on = prefix.is_empty() || key.len() > prefix.len();
        goes_on && key.starts_with(prefix) && slice(key, prefix.len()) == at
    };
    match present {
        Entry::Item(item) if !here(item.key) => Err(format!("holds key {:?}", item.key)),
        Entry::Item(_) => Ok(()),
        Entry::Layer(layer) => check_layer(layer, prefix, here(layer.prefix)),
        Entry::Bucket(bucket) => {
            check_bucket(bucket, prefix.len())?;
            if let Some(item) = (0..bucket.heads.len()).find(|&item| !here(bucket.item(item).key)) {
                return Err(format!("its bucket holds key {:?}", bucket.item(item).key));
            }
            if bucket.layer == 0 {
                return Ok(());
            }
            // SAFETY: the bucket names the layer; the caller's guard keeps both.
            let layer = unsafe { Layer::<C>::load(bucket.layer) };
            check_layer(&layer, prefix, here(layer.prefix))
        }
    }
}

fn check_layer<C: Capacity>(layer: &Layer<'_, C>, above: &[u8], here: bool) -> Result<(), String> {
    let bytes = layer.prefix.len();
    let aligned = bytes.is_multiple_of(SLICE_BYTES) && bytes >= above.len() + SLICE_BYTES;
    if here && aligned {
        Ok(())
    } else {
        Err(format!("names a layer of prefix {:?}", layer.prefix))
    }
}

fn check_bucket(bucket: &Bucket<'_>, offset: usize) -> Result<(), String> {
    let keys: Vec<&[u8]> = (0..bucket.heads.len())
        .map(|at| bucket.item(at).key)
        .collect();
    if keys.is_empty() || (keys.len() == 1 && bucket.layer == 0) {
        return Err("a bucket that is not needed".to_owned());
    }
    if !keys.windows(2).all(|pair| pair[0] < pair[1]) {
        return Err(format!("bucket keys {keys:?} do not ascend"));
    }
    let heads = keys.iter().map(|key| slice(key, bucket.offset));
    if bucket.offset != shared_prefix(keys[0], keys[keys.len() - 1])
        || !heads.eq(bucket.heads.iter().copied())
    {
        return Err("a bucket's heads are not those of its keys".to_owned());
    }
    if bucket.layer != 0 && keys.iter().any(|key| is_long(key, offset)) {
        return Err("a long key beside the layer of long keys".to_owned());
    }
    Ok(())
}
