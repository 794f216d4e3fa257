//! What 32-bit and 64-bit keys make of a cache line.
//!
//! | | 32-bit | 64-bit |
//! |---|---|---|
//! | leaf line: a count in byte 0, keys from lane 1 on | 15 keys | 7 keys |
//! | inner line: a count in byte 0, children from byte 1 on, keys from byte 16 on | 12 keys, 13 children | 6 keys, 7 children |
//! | fence keys in a page's header | 6 | 3 |
//! | key line of a flat page: no count, keys from lane 0 on | 16 keys | 8 keys |
//!
//! Lanes without a key hold the greatest integer, which is below no key: searches need no count.

use std::fmt::Debug;

use hedgerow_index::IntKey;
use hedgerow_simd::Kernel;

/// The most children of an inner line, of either width.
pub(crate) const MOST_CHILDREN: usize = 13;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl Sealed for i32 {}
    impl Sealed for i64 {}
}

/// An integer of 32 or 64 bits, and how many of them share a cache line.
pub trait KeyWidth: Copy + Ord + Debug + Send + Sync + 'static + sealed::Sealed {
    /// One cache line.
    type Lanes: Copy + Debug + AsRef<[Self]> + AsMut<[Self]>;
    /// The values beside the keys of one leaf line.
    type Values<V: Copy>: Copy + AsRef<[V]> + AsMut<[V]>;
    /// One of something for each key line of a flat page.
    type Group<T: Copy>: Copy + AsRef<[T]> + AsMut<[T]>;
    /// The fence keys of a page, 24 bytes.
    type Fences: Copy + Debug + AsRef<[Self]> + AsMut<[Self]>;
    /// All fence keys the greatest integer.
    const NO_FENCES: Self::Fences;
    /// Keys that a leaf line holds.
    const LEAF: usize;
    /// Keys that an inner line holds.
    const INNER: usize;
    /// Fence keys in a page's header.
    const FENCES: usize;
    /// Integers in a line.
    const LANES: usize;
    /// The least integer.
    const MIN: Self;
    /// The greatest integer.
    const MAX: Self;
    /// A leaf line without keys.
    const EMPTY: Self::Lanes;
    /// A line of the greatest integer.
    const PADDING: Self::Lanes;
    /// The next integer; what comes after the greatest means nothing.
    fn next(self) -> Self;
    /// The integer before this one; what comes before the least means nothing.
    fn before(self) -> Self;
    /// Byte `index` of the first 16.
    fn byte(lanes: &Self::Lanes, index: usize) -> u8;
    /// Changes byte `index` of the first 16.
    fn set_byte(lanes: &mut Self::Lanes, index: usize, value: u8);
    /// Puts `value` at byte `index` of the first 16, and moves what is there and behind it up by
    /// one.
    fn push_byte(lanes: &mut Self::Lanes, index: usize, value: u8);
    /// Copies of one value.
    fn values<V: Copy>(value: V) -> Self::Values<V>;
    /// Copies of one thing.
    fn group<T: Copy>(one: T) -> Self::Group<T>;
    /// Puts `key` into lane `position`, moves what is there and behind it up by one, and returns
    /// the lane that falls out.
    fn push_in(lanes: &mut Self::Lanes, position: usize, key: Self) -> Self;
    /// Takes lane `position` out, moves what is behind it down by one, and puts `last` at the end.
    fn pull_out(lanes: &mut Self::Lanes, position: usize, last: Self);
    /// As `push_in`, for values.
    fn push_value<V: Copy>(values: &mut Self::Values<V>, position: usize, value: V);
    /// As `pull_out`, for values; the last stays twice.
    fn pull_value<V: Copy>(values: &mut Self::Values<V>, position: usize);
}

/// A key as nodes for one writer hold it: `i32` or `i64`. Signed, as that is the order which AVX2
/// has: it compares a line with a key straight from memory.
pub trait NodeKey: KeyWidth {
    /// Lanes below `key`, not counting the first `skip`, which are at most 16 bytes.
    fn count<S: Kernel>(lanes: &Self::Lanes, skip: usize, key: Self) -> usize;
    /// Lanes below `key` of all lines.
    fn count_all<'a, S: Kernel>(lines: impl Iterator<Item = &'a Self::Lanes>, key: Self) -> usize;
}

/// A key of a map for one writer: `u32`, `i32`, `u64` or `i64`.
pub trait MapKey: IntKey + sealed::Sealed {
    /// The integer that nodes hold for it, in the same order.
    type NodeKey: NodeKey;

    /// This key as nodes hold it.
    fn to_node_key(self) -> Self::NodeKey;

    /// The key that nodes hold so.
    fn from_node_key(key: Self::NodeKey) -> Self;
}

macro_rules! node_key {
    ($key:ty, $node_key:ty, $flip:expr) => {
        impl MapKey for $key {
            type NodeKey = $node_key;

            #[inline(always)]
            fn to_node_key(self) -> $node_key {
                (self ^ $flip) as $node_key
            }

            #[inline(always)]
            fn from_node_key(key: $node_key) -> Self {
                key as Self ^ $flip
            }
        }
    };
}

node_key!(i32, i32, 0);
node_key!(i64, i64, 0);
// Unsigned integers sort as signed ones do once their top bits are flipped.
node_key!(u32, i32, 1 << 31);
node_key!(u64, i64, 1 << 63);

/// Moves by choosing, lane by lane, between a lane and its neighbour: loops of a fixed length
/// without branches, which the compiler turns into a few vector instructions, where a `memmove`
/// of a length that it does not know is a call.
#[inline(always)]
fn push<T: Copy, const LANES: usize>(lanes: &mut [T; LANES], position: usize, item: T) {
    let old = *lanes;
    for at in 1..LANES {
        lanes[at] = if at > position { old[at - 1] } else { old[at] };
    }
    lanes[position % LANES] = item;
}

#[inline(always)]
fn pull<T: Copy, const LANES: usize>(lanes: &mut [T; LANES], position: usize) {
    let old = *lanes;
    for at in 0..LANES - 1 {
        lanes[at] = if at >= position { old[at + 1] } else { old[at] };
    }
}

macro_rules! width {
    (
        $node_key:ty,
        $word:ty,
        $lanes:literal,
        $leaf:literal,
        $inner:literal,
        $fences:literal,
        $group:literal
    ) => {
        impl KeyWidth for $node_key {
            type Lanes = [$node_key; $lanes];
            type Values<V: Copy> = [V; $lanes];
            type Group<T: Copy> = [T; $group];
            type Fences = [$node_key; $fences];
            const NO_FENCES: Self::Fences = [<$node_key>::MAX; $fences];
            const LEAF: usize = $leaf;
            const INNER: usize = $inner;
            const FENCES: usize = $fences;
            const LANES: usize = $lanes;
            const MIN: Self = <$node_key>::MIN;
            const MAX: Self = <$node_key>::MAX;
            const PADDING: Self::Lanes = [<$node_key>::MAX; $lanes];
            const EMPTY: Self::Lanes = {
                let mut lanes = [<$node_key>::MAX; $lanes];
                lanes[0] = 0;
                lanes
            };

            #[inline(always)]
            fn next(self) -> Self {
                self.wrapping_add(1)
            }

            #[inline(always)]
            fn before(self) -> Self {
                self.wrapping_sub(1)
            }

            #[inline(always)]
            fn byte(lanes: &Self::Lanes, index: usize) -> u8 {
                const BYTES: usize = size_of::<$node_key>();
                (lanes[index / BYTES % $lanes] >> (8 * (index % BYTES))) as u8
            }

            #[inline(always)]
            fn set_byte(lanes: &mut Self::Lanes, index: usize, value: u8) {
                const BYTES: usize = size_of::<$node_key>();
                let (lane, shift) = (&mut lanes[index / BYTES % $lanes], 8 * (index % BYTES));
                *lane = *lane & !(0xff << shift) | <$node_key>::from(value) << shift;
            }

            #[inline(always)]
            fn push_byte(lanes: &mut Self::Lanes, index: usize, value: u8) {
                const BITS: usize = 8 * size_of::<$node_key>();
                let old = (0..128 / BITS).fold(0, |bytes, lane| {
                    bytes | u128::from(lanes[lane] as $word) << (BITS * lane)
                });
                let before = (1_u128 << (8 * index)) - 1;
                let pushed = old & before | (old & !before) << 8 | u128::from(value) << (8 * index);
                for lane in 0..128 / BITS {
                    lanes[lane] = (pushed >> (BITS * lane)) as $node_key;
                }
            }

            #[inline(always)]
            fn values<V: Copy>(value: V) -> [V; $lanes] {
                [value; $lanes]
            }

            #[inline(always)]
            fn group<T: Copy>(one: T) -> [T; $group] {
                [one; $group]
            }

            #[inline(always)]
            fn push_in(lanes: &mut Self::Lanes, position: usize, key: Self) -> Self {
                let out = lanes[$lanes - 1];
                push(lanes, position, key);
                out
            }

            #[inline(always)]
            fn pull_out(lanes: &mut Self::Lanes, position: usize, last: Self) {
                pull(lanes, position);
                lanes[$lanes - 1] = last;
            }

            #[inline(always)]
            fn push_value<V: Copy>(values: &mut [V; $lanes], position: usize, value: V) {
                push(values, position, value);
            }

            #[inline(always)]
            fn pull_value<V: Copy>(values: &mut [V; $lanes], position: usize) {
                pull(values, position);
            }
        }
    };
}

width!(u32, u32, 16, 15, 12, 6, 13);
width!(i32, u32, 16, 15, 12, 6, 13);
width!(u64, u64, 8, 7, 6, 3, 7);
width!(i64, u64, 8, 7, 6, 3, 7);

macro_rules! compared {
    ($node_key:ty, $count:ident, $count_all:ident) => {
        impl NodeKey for $node_key {
            #[inline(always)]
            fn count<S: Kernel>(lanes: &Self::Lanes, skip: usize, key: Self) -> usize {
                S::$count(lanes, skip, key)
            }

            #[inline(always)]
            fn count_all<'a, S: Kernel>(
                lines: impl Iterator<Item = &'a Self::Lanes>,
                key: Self,
            ) -> usize {
                S::$count_all(lines, key)
            }
        }
    };
}

compared!(i32, count_32, count_all_32);
compared!(i64, count_64, count_all_64);
