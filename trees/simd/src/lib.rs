//! Node search: where does a key belong among the (up to) 15 key slices of a node?
//!
//! Masstree spends what is not DRAM waiting mostly here (§4.8). Slices are `u64`s that compare
//! as their bytes do, so a whole node is four 256-bit or two 512-bit comparisons, with no
//! branch that the key's value decides. The kernels:
//!
//! | kernel | border node, equality | interior node, rank |
//! |---|---|---|
//! | [`Linear`] | walks the permutation in key order | walks the slices |
//! | [`Binary`] | halves the permutation | halves the slices |
//! | [`Scalar`] | compares all slots, branch-free | compares all slots, branch-free |
//! | `Sse2` | as `Scalar` | as `Scalar` |
//! | `Avx2` | 4 vector compares | 4 vector compares |
//! | `Avx512` | 2 vector compares | 2 vector compares |
//!
//! `Linear` and `Binary` are the two that the paper discusses; `Scalar` is the portable twin
//! and, in the tests, the oracle of the vector kernels.
//!
//! **Chosen once, at the top.** A [`Level`] is found when a tree is made. An operation is a
//! [`Task`]; [`Level::run`] enters one function per level, compiled for that instruction set,
//! into which the whole operation is inlined: one predictable branch per operation (or batch),
//! none per node. What gains by the instructions beside the vectors, too, but not
//! by every kernel, is an [`Operation`], which is compiled for three levels.
//!
//! **Racing readers.** Nodes are read while writers change them. All slots are atomics; the
//! scalar kernels and `Sse2` load them as such. The AVX kernels load through inline assembly, which
//! the language treats as an opaque read; each 8-byte lane of such a load is single-copy
//! atomic on every x86-64 processor with AVX. Thread sanitizer and Miri cannot see into
//! assembly: run them with `HEDGEROW_SIMD=scalar` (Miri always gets it).
//!
//! Trees of one writer keep signed integers in plain 64-byte lines ([`Line32`], [`Line64`]), in the
//! order that AVX2 has, so that lines are compared straight from memory; a kernel compares such a
//! line in one or two instructions (`Sse2` one of 32-bit lanes in four), through ordinary loads.
//! Where many threads write, the line is a [`SharedLine`] and the loads are those of racing
//! readers.
//!
//! Pages of the B-tree, too, are read while writers change them, as atomic words:
//! [`Kernel::below_shared_32`] compares sixteen or eight integers of those, and [`below_32`] as
//! many that the caller has loaded, with SSE2 alone.
//!
//! **No load past the node.** A [`Slots`] is exactly 16 words, the 16th never a key.

mod bytes;
mod kernel;
mod level;
mod line;
#[cfg(target_arch = "x86_64")]
mod sse2;
mod words;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use bytes::equal_bytes;
pub use kernel::{Binary, Kernel, Linear, Scalar, live_slots};
pub use level::{Level, Operation, Task};
pub use line::{Line32, Line64, SharedLine, flip_sign, flip_signs};
pub use words::below_32;

use std::sync::atomic::AtomicU64;

/// The key slices of a node: 15 slots, and a 16th word that holds no key (searches mask it).
pub type Slots = [AtomicU64; 16];

/// Slots that can hold a key.
pub const WIDTH: usize = 15;
