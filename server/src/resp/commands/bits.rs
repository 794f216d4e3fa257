//! Commands on the bits of plain values. Bit 0 is the highest of the first byte.

use hedgerow::Action;
use hedgerow::backend::Backend;

use crate::resp::command::Call;
use crate::resp::commands::strings::plain;
use crate::resp::failure::{Failure, Outcome};
use crate::resp::number;

/// The place of a bit: its byte, and the bit within.
fn offset<B: Backend>(call: &Call<'_, '_, '_, B>) -> Outcome<(usize, u8)> {
    let bit = number::integer(&call.arguments[1]).and_then(|bit| u64::try_from(bit).ok());
    let byte = bit.and_then(|bit| usize::try_from(bit / 8).ok());
    let byte = byte.filter(|byte| *byte < call.shared.settings.max_bulk_bytes());
    let place = byte.zip(bit.map(|bit| 0x80 >> (bit % 8)));
    place.ok_or(Failure::text(
        "ERR bit offset is not an integer or out of range",
    ))
}

/// `SETBIT key offset value`
pub(crate) fn setbit<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let (byte, mask) = offset(call)?;
    let on = match &call.arguments[2] {
        b"0" => false,
        b"1" => true,
        _ => {
            let text = "ERR bit is not an integer or out of range";
            return Err(Failure::text(text));
        }
    };
    let before = call.data.try_update(&call.arguments[0], |row, new| {
        let old = plain(row)?;
        let present = old.and_then(|old| old.get(byte)).copied();
        let was_on = present.unwrap_or(0) & mask != 0;
        if present.is_some() && was_on == on {
            return Ok(Action::Keep(was_on));
        }
        let mut value = old.unwrap_or_default().to_vec();
        value.resize(value.len().max(byte + 1), 0);
        if on {
            value[byte] |= mask;
        } else {
            value[byte] &= !mask;
        }
        new.set_value_owned(value);
        Ok(Action::Put(was_on))
    })?;
    call.reply.integer(before.into());
    Ok(())
}

/// `GETBIT key offset`
pub(crate) fn getbit<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let (byte, mask) = offset(call)?;
    let bit = call.data.value(&call.arguments[0], |value| {
        value.get(byte).is_some_and(|byte| byte & mask != 0)
    })?;
    call.reply.integer(bit.unwrap_or(false).into());
    Ok(())
}

/// How many bits are set in a value.
fn count_ones(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_ne_bytes(*word));
    let ones: u64 = words.map(|word| u64::from(word.count_ones())).sum();
    ones + rest
        .iter()
        .map(|byte| u64::from(byte.count_ones()))
        .sum::<u64>()
}

/// How many bits are set among those at `first..=last`.
fn count_between(value: &[u8], first: u64, last: u64) -> u64 {
    let (first_byte, last_byte) = ((first / 8) as usize, (last / 8) as usize);
    let before = value[first_byte] & !(0xff_u8 >> (first % 8));
    let behind = value[last_byte] & (0x7f_u8 >> (last % 8));
    count_ones(&value[first_byte..=last_byte])
        - u64::from(before.count_ones())
        - u64::from(behind.count_ones())
}

/// `BITCOUNT key [start end [BYTE | BIT]]`
pub(crate) fn bitcount<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let arguments = call.arguments;
    let count = call.data.value(&arguments[0], |value| {
        // In the order in which Redis looks: only a key that is there is asked at all.
        let (start, end) = match (arguments.len(), arguments.get(1), arguments.get(2)) {
            (1, ..) => return Ok(count_ones(value)),
            (3 | 4, Some(start), Some(end)) => (number::argument(start)?, number::argument(end)?),
            _ => return Err(Failure::Syntax),
        };
        if start < 0 && end < 0 && start > end {
            return Ok(0);
        }
        let units_per_byte = match arguments.get(3) {
            None => 1,
            Some(unit) if unit.eq_ignore_ascii_case(b"BYTE") => 1,
            Some(unit) if unit.eq_ignore_ascii_case(b"BIT") => 8,
            Some(_) => return Err(Failure::Syntax),
        };
        let units = value.len() as i64 * units_per_byte;
        let range = super::strings::resolve_range(start, end, units);
        Ok(range.map_or(0, |(start, end)| {
            let bits_per_unit = 8 / units_per_byte as u64;
            let last = (end + 1) * bits_per_unit - 1;
            count_between(value, start * bits_per_unit, last)
        }))
    })?;
    call.reply.integer(count.transpose()?.unwrap_or(0) as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_are_counted_as_one_by_one(
            value in prop::collection::vec(any::<u8>(), 1..40),
            ends in any::<(prop::sample::Index, prop::sample::Index)>(),
        ) {
            let bits = value.len() * 8;
            let (a, b) = (ends.0.index(bits), ends.1.index(bits));
            let (first, last) = (a.min(b), a.max(b));
            let is_set = |bit: &usize| value[bit / 8] & (0x80 >> (bit % 8)) != 0;
            let expected = (first..=last).filter(is_set).count() as u64;
            prop_assert_eq!(count_between(&value, first as u64, last as u64), expected);
            prop_assert_eq!(count_ones(&value), (0..bits).filter(is_set).count() as u64);
        }
    }
}
