//! Byte keys: a trie of Matryoshkas, so that the tree serves keyspaces of any keys.
//!
//! A key is cut into slices of eight bytes, read big-endian and padded with zeros, so that slices
//! compare as bytes do (the seed's §12.8 leaves the way open; this is "order-preserving slices with
//! indirection"). A tree maps the slice at one offset of the keys to a word, and the word names:
//!
//! * an *item*: one key with its value, in a block of their own (the only key of that slice);
//! * a *bucket*: a sorted handful of items whose keys share the slice, never changed but for
//!   replacing an item by another of the same key;
//! * a *layer*: a tree of its own for the keys that go on after the slice, when they are too many
//!   for a bucket. Its offset lies where those keys begin to differ, however far that is: one
//!   layer, where a shared prefix of a hundred bytes would make twelve. Keys that end within the
//!   slice stay in a bucket beside the layer.
//!
//! So a key of up to eight bytes costs one search, of whole integers, and one read of its item.
//! Items hold whole keys: reads skip what prefixes say and compare once, at the end; scans show
//! keys without putting them together; and a layer takes items over by their addresses.
//!
//! **Sharing.** A change runs under the latch of the page that holds the slice's word. Items,
//! buckets and layers' prefixes are not changed once linked; what is unlinked is retired through
//! the epoch, afterwards. A layer that is down to a few keys folds: under the latches of the page
//! that names it, of its anchor and of its only page it is closed, and its keys go where its word
//! was. Operations on their way into the layer restart at the first tree.
//!
//! * `item`, `bucket`, `layer`: the blocks. `entry`, `tag`: which of them a word names. `slice`:
//!   slices and common prefixes.
//! * `map`: the index. `find`, `update`, `fold`, `scan`, `partition`, `load`, `verify`.

mod bucket;
mod entry;
mod find;
mod fold;
mod item;
mod layer;
mod load;
mod map;
mod partition;
mod scan;
mod slice;
mod tag;
mod update;
mod verify;

pub use map::MatryoshkaIndex;
