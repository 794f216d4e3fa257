//! What 32-bit and 64-bit keys make of a cache line.
//!
//! | | 32-bit | 64-bit |
//! |---|---|---|
//! | leaf line: a count in byte 0, keys from lane 1 on | 15 keys | 7 keys |
//! | inner line: a count in byte 0, children from byte 1 on, keys from byte 16 on | 12 keys, 13 children | 6 keys, 7 children |
//! | fence keys in a page's header | 6 | 3 |
//!
//! Lanes without a key hold the greatest integer, which is below no key: searches need no count.

use std::fmt::Debug;

use hedgerow_simd::Kernel;

/// The most children of an inner line, of either width.
pub(crate) const MOST_CHILDREN: usize = 13;

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// A key's encoded form: `u32` or `u64`.
pub trait Lane: Copy + Ord + Debug + Send + Sync + 'static + sealed::Sealed {
    /// One cache line.
    type Lanes: Copy + Debug + AsRef<[Self]> + AsMut<[Self]>;
    /// The values beside the keys of one leaf line.
    type Values<V: Copy>: Copy + AsRef<[V]> + AsMut<[V]>;
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
    /// A bit for every lane below `key`.
    fn below<S: Kernel>(lanes: &Self::Lanes, key: Self) -> u32;
    /// Byte `index` of the first 16.
    fn byte(lanes: &Self::Lanes, index: usize) -> u8;
    /// Changes byte `index` of the first 16.
    fn set_byte(lanes: &mut Self::Lanes, index: usize, value: u8);
    /// Copies of one value.
    fn values<V: Copy>(value: V) -> Self::Values<V>;
}

macro_rules! lane {
    ($lane:ty, $lanes:literal, $leaf:literal, $inner:literal, $fences:literal, $below:ident) => {
        impl Lane for $lane {
            type Lanes = [$lane; $lanes];
            type Values<V: Copy> = [V; $lanes];
            type Fences = [$lane; $fences];
            const NO_FENCES: Self::Fences = [<$lane>::MAX; $fences];
            const LEAF: usize = $leaf;
            const INNER: usize = $inner;
            const FENCES: usize = $fences;
            const LANES: usize = $lanes;
            const MIN: Self = 0;
            const MAX: Self = <$lane>::MAX;
            const PADDING: Self::Lanes = [<$lane>::MAX; $lanes];
            const EMPTY: Self::Lanes = {
                let mut lanes = [<$lane>::MAX; $lanes];
                lanes[0] = 0;
                lanes
            };

            #[inline(always)]
            fn below<S: Kernel>(lanes: &Self::Lanes, key: Self) -> u32 {
                S::$below(lanes, key)
            }

            #[inline(always)]
            fn byte(lanes: &Self::Lanes, index: usize) -> u8 {
                const BYTES: usize = size_of::<$lane>();
                (lanes[index / BYTES % $lanes] >> (8 * (index % BYTES))) as u8
            }

            #[inline(always)]
            fn set_byte(lanes: &mut Self::Lanes, index: usize, value: u8) {
                const BYTES: usize = size_of::<$lane>();
                let (lane, shift) = (&mut lanes[index / BYTES % $lanes], 8 * (index % BYTES));
                *lane = *lane & !(0xff << shift) | <$lane>::from(value) << shift;
            }

            #[inline(always)]
            fn values<V: Copy>(value: V) -> [V; $lanes] {
                [value; $lanes]
            }
        }
    };
}

lane!(u32, 16, 15, 12, 6, below_32);
lane!(u64, 8, 7, 6, 3, below_64);
