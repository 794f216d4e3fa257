//! Numbers in decimal.

/// Appends a number in decimal, with zeros in front up to `width` digits.
pub(super) fn digits(number: u64, width: usize, key: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut start = digits.len();
    let mut rest = number;
    while rest > 0 || digits.len() - start < width {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key.extend_from_slice(&digits[start..]);
}
