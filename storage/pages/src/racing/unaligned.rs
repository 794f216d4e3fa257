//! Accesses of x86-64 at any offset, by inline assembly.
//!
//! Each is one instruction that loads or stores 1, 2, 4, 8 or 16 bytes; where many move upwards, a
//! loop of loads and stores of 32. Several of them cover other lengths: the last and the one before
//! it overlap.

use std::arch::asm;
use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_storeu_si128};
use std::sync::atomic::AtomicU64;

use super::{Accesses, WORD, are_within};

/// Bytes of the longest access, but for moves of many.
const VECTOR: usize = 16;
/// Bytes from which on a move upwards, as insertions are, takes vectors of twice as many, if the
/// processor has them.
const LONG: usize = 32;

/// The move of a vector, encoded as the code around it is: between instructions of AVX the old
/// encoding costs as much as some hundred others.
#[cfg(target_feature = "avx")]
macro_rules! movdqu {
    () => {
        "vmovdqu"
    };
}
#[cfg(not(target_feature = "avx"))]
macro_rules! movdqu {
    () => {
        "movdqu"
    };
}

/// Defines a load and a store of an integer.
macro_rules! accesses {
    ($load:ident $store:ident $integer:ty: $from:literal $to:literal $size:literal) => {
        /// # Safety
        ///
        /// The bytes lie within words that are borrowed, and whoever writes to them meanwhile does
        /// it by atomics or assembly.
        #[inline(always)]
        unsafe fn $load(from: *const u8) -> $integer {
            let value: $integer;
            // SAFETY: the load is of exactly the integer's bytes, which the caller vouches for.
            unsafe {
                asm!(
                    concat!($from, " ", $size, " ptr [{from}]"),
                    value = lateout(reg) value,
                    from = in(reg) from,
                    options(readonly, nostack, preserves_flags),
                );
            }
            value
        }

        /// # Safety
        ///
        /// The bytes lie within words that are borrowed and that nobody else writes to meanwhile,
        /// nor reads but by atomics or assembly.
        #[inline(always)]
        unsafe fn $store(to: *mut u8, value: $integer) {
            // SAFETY: the store is of exactly the integer's bytes, which the caller vouches for.
            unsafe {
                asm!(
                    concat!("mov ", $size, " ptr [{to}], ", $to),
                    to = in(reg) to,
                    value = in(reg) value,
                    options(nostack, preserves_flags),
                );
            }
        }
    };
}

accesses!(load_2 store_2 u16: "movzx {value:e}," "{value:x}" "word");
accesses!(load_4 store_4 u32: "mov {value:e}," "{value:e}" "dword");
accesses!(load_8 store_8 u64: "mov {value}," "{value}" "qword");

/// # Safety
///
/// As for the other loads.
#[inline(always)]
unsafe fn load_1(from: *const u8) -> u8 {
    let value: u32;
    // SAFETY: the load is of this byte, which the caller vouches for.
    unsafe {
        asm!(
            "movzx {value:e}, byte ptr [{from}]",
            value = lateout(reg) value,
            from = in(reg) from,
            options(readonly, nostack, preserves_flags),
        );
    }
    value as u8
}

/// # Safety
///
/// As for the other stores.
#[inline(always)]
unsafe fn store_1(to: *mut u8, value: u8) {
    // SAFETY: the store is of this byte, which the caller vouches for.
    unsafe {
        asm!(
            "mov byte ptr [{to}], {value}",
            to = in(reg) to,
            value = in(reg_byte) value,
            options(nostack, preserves_flags),
        );
    }
}

/// # Safety
///
/// As for the other loads.
#[inline(always)]
unsafe fn load_16(from: *const u8) -> __m128i {
    let value: __m128i;
    // SAFETY: the load is of exactly 16 bytes, which the caller vouches for.
    unsafe {
        asm!(
            concat!(movdqu!(), " {value}, xmmword ptr [{from}]"),
            value = lateout(xmm_reg) value,
            from = in(reg) from,
            options(readonly, nostack, preserves_flags),
        );
    }
    value
}

/// # Safety
///
/// As for the other stores.
#[inline(always)]
unsafe fn store_16(to: *mut u8, value: __m128i) {
    // SAFETY: the store is of exactly 16 bytes, which the caller vouches for.
    unsafe {
        asm!(
            concat!(movdqu!(), " xmmword ptr [{to}], {value}"),
            to = in(reg) to,
            value = in(xmm_reg) value,
            options(nostack, preserves_flags),
        );
    }
}

/// Where the byte at an offset is.
#[inline(always)]
fn place(words: &[AtomicU64], at: usize) -> *mut u8 {
    words.as_ptr().cast::<u8>().cast_mut().wrapping_add(at)
}

/// By inline assembly, at any offset.
pub(crate) enum Unaligned {}

impl Accesses for Unaligned {
    #[inline(always)]
    fn load(words: &[AtomicU64], at: usize, size: usize) -> u64 {
        assert!(are_within(words, at, size), "a read beyond the words");
        // SAFETY: the bytes are within the words, for 1, 2 and 4 as was asserted, for others since
        // the load is moved to the last eight bytes of the words where it would go beyond them.
        unsafe {
            match size {
                1 => u64::from(load_1(place(words, at))),
                2 => u64::from(load_2(place(words, at))),
                4 => u64::from(load_4(place(words, at))),
                8 => load_8(place(words, at)),
                _ => {
                    let from = at.min((words.len() - 1) * WORD);
                    // No shift by 64 if there is nothing to load.
                    load_8(place(words, from)) >> ((at - from) * 8).min(63)
                }
            }
        }
    }

    #[inline(always)]
    fn read(words: &[AtomicU64], at: usize, into: &mut [u8]) {
        let len = into.len();
        assert!(are_within(words, at, len), "a read beyond the words");
        let (from, into) = (place(words, at), into.as_mut_ptr());
        // SAFETY: `len` bytes from either place on are within the words, as was asserted, and
        // within `into`, which is borrowed mutably; no access goes beyond them.
        unsafe {
            match len {
                0 => {}
                1 => *into = load_1(from),
                2..4 => {
                    let last = load_1(from.add(len - 1));
                    into.cast::<u16>().write_unaligned(load_2(from));
                    *into.add(len - 1) = last;
                }
                4 => into.cast::<u32>().write_unaligned(load_4(from)),
                5..8 => {
                    let last = load_4(from.add(len - 4));
                    into.cast::<u32>().write_unaligned(load_4(from));
                    into.add(len - 4).cast::<u32>().write_unaligned(last);
                }
                8 => into.cast::<u64>().write_unaligned(load_8(from)),
                // No vector: functions that are compiled for AVX apart from their crate read so
                // many.
                9..=VECTOR => {
                    let last = load_8(from.add(len - 8));
                    into.cast::<u64>().write_unaligned(load_8(from));
                    into.add(len - 8).cast::<u64>().write_unaligned(last);
                }
                _ => {
                    let last = len - VECTOR;
                    let mut at = 0;
                    while at < last {
                        _mm_storeu_si128(into.add(at).cast(), load_16(from.add(at)));
                        at += VECTOR;
                    }
                    _mm_storeu_si128(into.add(last).cast(), load_16(from.add(last)));
                }
            }
        }
    }

    #[inline(always)]
    fn read_few<const N: usize>(words: &[AtomicU64], at: usize, len: usize, into: &mut [u8; N]) {
        let whole = len.next_multiple_of(WORD);
        if !are_within(words, at, whole) {
            return Self::read(words, at, &mut into[..len]);
        }
        for (done, into) in (0..).step_by(WORD).zip(into[..whole].as_chunks_mut().0) {
            *into = Self::load(words, at + done, WORD).to_le_bytes();
        }
    }

    #[inline(always)]
    fn write(words: &[AtomicU64], at: usize, bytes: &[u8]) {
        let len = bytes.len();
        assert!(are_within(words, at, len), "a write beyond the words");
        let (to, from) = (place(words, at), bytes.as_ptr());
        // SAFETY: `len` bytes from either place on are within the words, as was asserted, and
        // within `bytes`; no access goes beyond them. Nobody else writes to the words (the caller).
        unsafe {
            match len {
                0 => {}
                1 => store_1(to, *from),
                2..4 => {
                    store_2(to, from.cast::<u16>().read_unaligned());
                    if len == 3 {
                        store_1(to.add(2), *from.add(2));
                    }
                }
                4..8 => {
                    store_4(to, from.cast::<u32>().read_unaligned());
                    if len > 4 {
                        store_4(
                            to.add(len - 4),
                            from.add(len - 4).cast::<u32>().read_unaligned(),
                        );
                    }
                }
                8..VECTOR => {
                    store_8(to, from.cast::<u64>().read_unaligned());
                    if len > 8 {
                        store_8(
                            to.add(len - 8),
                            from.add(len - 8).cast::<u64>().read_unaligned(),
                        );
                    }
                }
                _ => {
                    let last = len - VECTOR;
                    let mut at = 0;
                    while at < last {
                        store_16(to.add(at), _mm_loadu_si128(from.add(at).cast()));
                        at += VECTOR;
                    }
                    store_16(to.add(last), _mm_loadu_si128(from.add(last).cast()));
                }
            }
        }
    }

    #[inline(always)]
    fn shift(words: &[AtomicU64], from: usize, len: usize, to: usize) {
        assert!(are_within(words, from, len), "a read beyond the words");
        assert!(are_within(words, to, len), "a write beyond the words");
        let (source, target) = (place(words, from), place(words, to));
        // SAFETY: `len` bytes from either place on are within the words, as was asserted; no access
        // goes beyond them. Nobody else writes to the words (the caller).
        unsafe {
            match len {
                0 => {}
                _ if to == from => {}
                1..VECTOR => shift_few(source, len, target),
                LONG.. if to > from && is_x86_feature_detected!("avx2") => {
                    shift_up_long(source, len, target);
                }
                _ if to > from => shift_up(source, len, target),
                _ => {
                    let last = load_16(source.add(len - VECTOR));
                    let mut at = 0;
                    while at < len - VECTOR {
                        store_16(target.add(at), load_16(source.add(at)));
                        at += VECTOR;
                    }
                    store_16(target.add(len - VECTOR), last);
                }
            }
        }
    }
}

/// Moves as many bytes as a vector has, or more, upwards. The last bytes go first, so that all are
/// loaded before they are overwritten; the first may be those of two steps.
///
/// # Safety
///
/// As for the other loads and stores.
#[inline(always)]
unsafe fn shift_up(source: *const u8, len: usize, target: *mut u8) {
    // SAFETY: the accesses are of the `len` bytes from either place on, of which there are 16 or
    // more.
    unsafe {
        let first = load_16(source);
        let mut left = len;
        while left > VECTOR {
            left -= VECTOR;
            store_16(target.add(left), load_16(source.add(left)));
        }
        store_16(target, first);
    }
}

/// [`shift_up`] of [`LONG`] bytes or more, by vectors of 32.
///
/// # Safety
///
/// As for the other loads and stores; and the processor has AVX2.
#[inline(always)]
unsafe fn shift_up_long(source: *const u8, len: usize, target: *mut u8) {
    // SAFETY: the accesses are of the `len` bytes from either place on, of which there are 32 or
    // more. All registers whose upper halves `vzeroupper` clears are named as overwritten.
    unsafe {
        asm!(
            "vmovdqu ymm0, ymmword ptr [{source}]",
            "cmp {left}, 32",
            "jbe 3f",
            "2:",
            "vmovdqu ymm1, ymmword ptr [{source} + {left} - 32]",
            "vmovdqu ymmword ptr [{target} + {left} - 32], ymm1",
            "sub {left}, 32",
            "cmp {left}, 32",
            "ja 2b",
            "3:",
            "vmovdqu ymmword ptr [{target}], ymm0",
            "vzeroupper",
            source = in(reg) source,
            target = in(reg) target,
            left = inout(reg) len => _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack),
        );
    }
}

/// Moves fewer bytes than a vector has: all are loaded before any is stored.
///
/// # Safety
///
/// As for the other loads and stores.
#[inline(always)]
unsafe fn shift_few(source: *const u8, len: usize, target: *mut u8) {
    // SAFETY: the accesses are within the `len` bytes from either place on.
    unsafe {
        match len {
            8.. => {
                let (first, last) = (load_8(source), load_8(source.add(len - 8)));
                store_8(target, first);
                store_8(target.add(len - 8), last);
            }
            4..8 => {
                let (first, last) = (load_4(source), load_4(source.add(len - 4)));
                store_4(target, first);
                store_4(target.add(len - 4), last);
            }
            2..4 => {
                let (first, last) = (load_2(source), load_1(source.add(len - 1)));
                store_2(target, first);
                store_1(target.add(len - 1), last);
            }
            _ => store_1(target, load_1(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processors with AVX2 move many bytes by the one, others by the other.
    #[test]
    fn both_moves_upwards_are_those_of_bytes() {
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        for (len, by) in (VECTOR..=150).flat_map(|len| (1..=70).map(move |by| (len, by))) {
            let mut expected = bytes.clone();
            expected.copy_within(3..3 + len, 3 + by);
            let moved = |shift: unsafe fn(*const u8, usize, *mut u8)| {
                let mut bytes = bytes.clone();
                let start = bytes.as_mut_ptr();
                // SAFETY: at most 3 + 150 + 70 of the 256 bytes, which nobody else has; the
                // processor has AVX2 where a move needs it.
                unsafe { shift(start.add(3), len, start.add(3 + by)) };
                bytes
            };
            assert_eq!(moved(shift_up), expected, "{len} bytes by {by}");
            if len >= LONG && is_x86_feature_detected!("avx2") {
                assert_eq!(moved(shift_up_long), expected, "{len} bytes by {by}");
            }
        }
    }
}
