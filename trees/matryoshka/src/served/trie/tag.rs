//! The two low bits of a slice's word: whether it names an item (neither), a bucket or a layer.
//! Blocks are aligned to 8, so these bits of their addresses are free.

/// In words of buckets.
pub(crate) const BUCKET_TAG: u64 = 1;

/// In words of layers.
pub(crate) const LAYER_TAG: u64 = 2;
