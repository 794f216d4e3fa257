//! Size classes: which slot size serves a request.
//!
//! ```text
//!   1 ..=   128   steps of  8   16 classes   8 16 24 … 128
//! 129 ..=   256   steps of 16    8 classes   144 160 … 256
//! 257 ..=  1024   steps of 64   12 classes   320 384 … 1024
//!  1 K ..= 32 K   4 per doubling 20 classes  1280 1536 1792 2048 2560 … 32768
//! ```
//!
//! Rounding wastes at most 7 bytes up to 128 and at most a fifth anywhere above. A request
//! that is a multiple of 64 always gets a class that is one too, so its slots, carved from
//! 64-byte-aligned chunks, are aligned to 64.

/// The largest request served from a pool.
pub(crate) const LARGEST_BYTES: usize = 32 * 1024;

/// The number of classes.
pub(crate) const COUNT: usize = 16 + 8 + 12 + 20;

const SLOT_BYTES: [usize; COUNT] = slot_table();

const fn slot_table() -> [usize; COUNT] {
    let mut table = [0; COUNT];
    let mut class = 0;
    while class < COUNT {
        table[class] = if class < 16 {
            8 * (class + 1)
        } else if class < 24 {
            128 + 16 * (class - 15)
        } else if class < 36 {
            256 + 64 * (class - 23)
        } else {
            let power = 10 + (class - 36) / 4;
            (1 << power) + ((1 << power) / 4) * ((class - 36) % 4 + 1)
        };
        class += 1;
    }
    assert!(table[COUNT - 1] == LARGEST_BYTES);
    table
}

/// The class that serves a request of `size_bytes` (0 counts as 1), at most [`LARGEST_BYTES`].
#[inline]
pub(crate) const fn of(size_bytes: usize) -> usize {
    if size_bytes <= 128 {
        (size_bytes + (size_bytes == 0) as usize).div_ceil(8) - 1
    } else if size_bytes <= 256 {
        15 + (size_bytes - 128).div_ceil(16)
    } else if size_bytes <= 1024 {
        23 + (size_bytes - 256).div_ceil(64)
    } else {
        let power = (size_bytes - 1).ilog2() as usize;
        let step_shift = power - 2;
        let step = (size_bytes - (1 << power) + (1 << step_shift) - 1) >> step_shift;
        35 + (power - 10) * 4 + step
    }
}

/// Bytes of one slot of `class`.
#[inline]
pub(crate) const fn slot_bytes(class: usize) -> usize {
    SLOT_BYTES[class]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_gets_the_smallest_class_that_fits() {
        for size in 0..=LARGEST_BYTES {
            let class = of(size);
            assert!(slot_bytes(class) >= size, "size {size} class {class}");
            if class > 0 {
                assert!(
                    slot_bytes(class - 1) < size.max(1),
                    "size {size} class {class}"
                );
            }
        }
    }

    #[test]
    fn multiples_of_64_get_slots_that_are_multiples_of_64() {
        for size in (64..=LARGEST_BYTES).step_by(64) {
            assert_eq!(slot_bytes(of(size)) % 64, 0, "size {size}");
        }
    }

    #[test]
    fn rounding_wastes_at_most_a_fifth_above_64_bytes() {
        for size in 65..=LARGEST_BYTES {
            let waste = slot_bytes(of(size)) - size;
            assert!(
                waste * 5 <= slot_bytes(of(size)),
                "size {size} wastes {waste}"
            );
        }
    }
}
