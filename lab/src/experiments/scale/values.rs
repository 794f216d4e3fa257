//! YCSB's records: ten fields of 100 bytes, which depend on the key and the field's number alone,
//! so that every reply can be checked whoever wrote last.

use hedgerow_lab_data::random::fnv64;

/// Fields of a record.
pub const FIELDS: usize = 10;

/// Bytes of a field.
pub const FIELD_BYTES: usize = 100;

/// A field's name, as YCSB has it.
pub fn name(field: usize) -> String {
    format!("field{field}")
}

/// A field's content: letters from a to p (xorshift), the same as in HBaseClient.java.
pub fn value(key: &[u8], field: usize) -> [u8; FIELD_BYTES] {
    let mut state = fnv64(key).wrapping_add(field as u64) | 1;
    std::array::from_fn(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        b'a' + (state >> 60) as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_letters_that_depend_on_key_and_field() {
        let values = [value(b"a", 1), value(b"a", 3), value(b"b", 1)];
        for (nth, value) in values.iter().enumerate() {
            assert!(value.iter().all(|byte| (b'a'..=b'p').contains(byte)));
            assert!(!values[..nth].contains(value));
        }
    }
}
