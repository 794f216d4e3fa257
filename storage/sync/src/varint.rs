//! Variable-length integers (LEB128): seven bits a byte, low bits first, at most ten bytes.
//!
//! Log records, rows and overflow records all write lengths this way, so the encoding lives in the
//! crate below all of them.

/// The most bytes an integer can take.
pub const MAX_BYTES: usize = 10;

/// Bytes that `value` takes.
#[inline]
#[must_use]
pub fn size(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Writes `value` at `at` in `buffer` and returns the position behind it.
///
/// # Panics
///
/// If the buffer ends before the integer does.
#[inline]
pub fn put(buffer: &mut [u8], mut at: usize, mut value: u64) -> usize {
    while value >= 0x80 {
        buffer[at] = value as u8 | 0x80;
        value >>= 7;
        at += 1;
    }
    buffer[at] = value as u8;
    at + 1
}

/// Appends `value`.
#[inline]
pub fn push(buffer: &mut Vec<u8>, value: u64) {
    let mut bytes = [0; MAX_BYTES];
    let end = put(&mut bytes, 0, value);
    buffer.extend_from_slice(&bytes[..end]);
}

/// Takes one integer off the front of `bytes`; `None` if they do not begin with one. Recovery
/// takes several from each record, and nearly all of them are one byte long.
#[inline(always)]
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    match bytes.split_first() {
        Some((&byte, rest)) if byte < 0x80 => {
            *bytes = rest;
            Some(u64::from(byte))
        }
        _ => take_long(bytes),
    }
}

#[cold]
#[inline(never)]
fn take_long(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for (at, &byte) in bytes.iter().take(MAX_BYTES).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if at == MAX_BYTES - 1 && byte > 1 {
            return None;
        }
        value |= bits << (7 * at);
        if byte < 0x80 {
            *bytes = &bytes[at + 1..];
            return Some(value);
        }
    }
    None
}

/// Takes `length` bytes off the front of `bytes`.
#[inline(always)]
pub fn take_bytes<'a>(bytes: &mut &'a [u8], length: u64) -> Option<&'a [u8]> {
    let length = usize::try_from(length)
        .ok()
        .filter(|&length| length <= bytes.len())?;
    let (taken, rest) = bytes.split_at(length);
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_come_back_at_every_length() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                push(&mut bytes, value);
                assert_eq!(bytes.len(), size(value), "{value}");
                for cut in 0..bytes.len() {
                    assert_eq!(take(&mut &bytes[..cut]), None);
                }
                let mut rest = &bytes[..];
                assert_eq!(take(&mut rest), Some(value));
                assert!(rest.is_empty());
            }
        }
        assert_eq!(take(&mut &[0xff; 10][..]), None, "does not fit 64 bits");
        assert_eq!(take(&mut &[0x80][..]), None, "ends too early");
    }
}
