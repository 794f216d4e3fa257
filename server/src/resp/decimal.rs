//! Decimal numbers of any usual size, added exactly: what `INCRBYFLOAT` computes with.
//!
//! A number is kept as its decimal digits, so nothing is rounded: neither 0.1, which no binary
//! fraction is, nor 2^64 + 0.5, which has more digits than a float. [`MAX_PLACES`] bounds its
//! digits; beyond, there is no number rather than a wrong one.

use std::cmp::Ordering;

/// The most digits before the point, and the most behind it: about those of the `long double` with
/// which Redis computes.
pub(crate) const MAX_PLACES: usize = 4932;

/// A decimal number, exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    negative: bool,
    /// Values from 0 to 9, the most significant first. Neither zeros that lead the whole part nor
    /// zeros that end the fraction; none at all for zero.
    digits: Vec<u8>,
    /// How many of the digits stand behind the point; the whole part may have none.
    places: usize,
}

impl Decimal {
    /// Zero.
    pub(crate) const ZERO: Decimal = Decimal {
        negative: false,
        digits: Vec::new(),
        places: 0,
    };

    /// Reads `-12.5e3` and the like: a sign, digits with a point among them or none, an exponent.
    /// `None` for other text, and for a number that has more digits than there can be.
    pub(crate) fn parse(text: &[u8]) -> Option<Decimal> {
        let (negative, text) = signed(text);
        let exponent_at = text.iter().position(|byte| matches!(byte, b'e' | b'E'));
        let (mantissa, exponent) = match exponent_at {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let point = mantissa.iter().position(|byte| *byte == b'.');
        let (whole, fraction) = match point {
            Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
            None => (mantissa, &[][..]),
        };
        let mut digits = whole.iter().chain(fraction);
        if whole.len() + fraction.len() == 0 || !digits.all(u8::is_ascii_digit) {
            return None;
        }
        let exponent = exponent.map_or(Some(0), parse_exponent)?;
        let digits = || whole.iter().chain(fraction);
        let Some(first) = digits().position(|digit| *digit != b'0') else {
            return Some(Decimal::ZERO);
        };
        let zeros_behind = digits().rev().take_while(|digit| **digit == b'0').count();
        let significant = digits().count() - zeros_behind - first;
        // Of the digits that count, so many stand before the point.
        let before = (whole.len() as i64 - first as i64).checked_add(exponent)?;
        let behind = (significant as i64).checked_sub(before)?;
        let most = MAX_PLACES as i64;
        if before > most || behind > most {
            return None;
        }
        // Zeros between the point and the digits.
        let padding = |missing: i64| std::iter::repeat_n(0, missing.max(0) as usize);
        let significant = digits().skip(first).take(significant);
        let mut all: Vec<u8> = padding(-before).collect();
        all.extend(significant.map(|digit| digit - b'0'));
        all.extend(padding(-behind));
        Some(Decimal {
            negative,
            digits: all,
            places: behind.max(0) as usize,
        })
    }

    /// How many digits stand before the point.
    fn whole_places(&self) -> usize {
        self.digits.len() - self.places
    }

    /// The digit that counts units of 10 to the power of `place`.
    fn digit(&self, place: i64) -> u8 {
        let at = self.whole_places() as i64 - 1 - place;
        let at = usize::try_from(at).ok();
        at.and_then(|at| self.digits.get(at)).copied().unwrap_or(0)
    }

    /// The places of both numbers, the lowest first.
    fn places_with(&self, other: &Decimal) -> impl DoubleEndedIterator<Item = i64> + use<> {
        let lowest = self.places.max(other.places) as i64;
        let above = self.whole_places().max(other.whole_places()) as i64;
        -lowest..above
    }

    /// Compares without the signs.
    fn compare_magnitudes(&self, other: &Decimal) -> Ordering {
        let mut places = self.places_with(other).rev();
        let differing = places.find(|place| self.digit(*place) != other.digit(*place));
        differing.map_or(Ordering::Equal, |place| {
            self.digit(place).cmp(&other.digit(place))
        })
    }

    /// The exact sum; `None` if it has more digits than there can be.
    pub(crate) fn plus(&self, other: &Decimal) -> Option<Decimal> {
        let (larger, smaller) = match self.compare_magnitudes(other) {
            Ordering::Less => (other, self),
            _ => (self, other),
        };
        let is_difference = larger.negative != smaller.negative;
        // From the lowest place up.
        let mut digits = Vec::new();
        let mut carry = 0i8;
        for place in larger.places_with(smaller) {
            let (a, b) = (larger.digit(place) as i8, smaller.digit(place) as i8);
            let sum = if is_difference { a - b } else { a + b } + carry;
            digits.push(sum.rem_euclid(10) as u8);
            carry = sum.div_euclid(10);
        }
        if carry > 0 {
            digits.push(carry as u8);
        }
        let sum = Decimal::of_reversed(larger.negative, digits, larger.places.max(smaller.places));
        (sum.whole_places() <= MAX_PLACES).then_some(sum)
    }

    /// The number with these digits, of which the last come first, without zeros at its ends.
    fn of_reversed(negative: bool, mut digits: Vec<u8>, places: usize) -> Decimal {
        let behind = digits[..places].iter();
        let zeros_behind = behind.take_while(|digit| **digit == 0).count();
        let before = digits[places..].iter().rev();
        let zeros_before = before.take_while(|digit| **digit == 0).count();
        digits.truncate(digits.len() - zeros_before);
        digits.drain(..zeros_behind);
        digits.reverse();
        if digits.is_empty() {
            return Decimal::ZERO;
        }
        Decimal {
            negative,
            digits,
            places: places - zeros_behind,
        }
    }
}

/// Without an exponent, as Redis writes sums.
impl std::fmt::Display for Decimal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, fraction) = self.digits.split_at(self.whole_places());
        let text = |digits: &[u8]| -> String {
            digits
                .iter()
                .map(|digit| char::from(b'0' + digit))
                .collect()
        };
        f.write_str(if self.negative { "-" } else { "" })?;
        f.write_str(if whole.is_empty() { "0" } else { "" })?;
        f.write_str(&text(whole))?;
        match fraction {
            [] => Ok(()),
            fraction => write!(f, ".{}", text(fraction)),
        }
    }
}

/// Whether text begins with a minus, and what is behind its sign.
fn signed(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

/// An exponent; one that no number can have is the largest, or the smallest.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    const LARGEST: i64 = i64::MAX / 4;
    let (negative, digits) = signed(text);
    if digits.is_empty() {
        return None;
    }
    let exponent = digits.iter().try_fold(0i64, |sum, digit| {
        let digit = char::from(*digit).to_digit(10)?;
        Some(
            sum.saturating_mul(10)
                .saturating_add(digit.into())
                .min(LARGEST),
        )
    })?;
    Some(if negative { -exponent } else { exponent })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text:?} is a number"))
    }

    fn sum(a: &str, b: &str) -> String {
        decimal(a).plus(&decimal(b)).unwrap().to_string()
    }

    #[test]
    fn sums_are_exact_however_the_numbers_are_written() {
        for (a, b, expected) in [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "200", "5200"),
            ("3", "-5.25", "-2.25"),
            ("-0.5", "0.5", "0"),
            ("-0", "0", "0"),
            ("1e3", "0.1", "1000.1"),
            ("1e4", "1E-3", "10000.001"),
            ("0.1", "1e-20", "0.10000000000000000001"),
            (
                "123456789012345678901234567890",
                "1",
                "123456789012345678901234567891",
            ),
            ("123456789012345678901", "0.5", "123456789012345678901.5"),
            ("99999999999999999999", "1", "100000000000000000000"),
            ("0.999", "0.001", "1"),
            ("1", "-0.0001", "0.9999"),
            ("-1", "1.5e0", "0.5"),
            ("1.", ".5", "1.5"),
            ("+12.5e+1", "-25e-1", "122.5"),
            ("0e99999999999999999999999", "7", "7"),
            ("0001000e-3", "000.2500", "1.25"),
        ] {
            assert_eq!(sum(a, b), expected, "{a} + {b}");
            assert_eq!(sum(b, a), expected, "{b} + {a}");
        }
    }

    #[test]
    fn what_is_no_number_or_too_long_a_one_is_refused() {
        for text in [
            "",
            "-",
            "+",
            ".",
            "-.",
            "e1",
            ".e1",
            "1e",
            "1e+",
            "1e1.5",
            "1.2.3",
            "--1",
            "+-1",
            " 1",
            "1 ",
            "1x",
            "nan",
            "inf",
            "0x10",
            "1e5000",
            "1e-5000",
            "1e99999999999999999999999",
            "1e-99999999999999999999999",
        ] {
            assert_eq!(Decimal::parse(text.as_bytes()), None, "{text:?}");
        }
        let largest = "9".repeat(MAX_PLACES);
        assert_eq!(sum(&largest, "-1e0"), format!("{}8", &largest[1..]));
        assert_eq!(decimal(&largest).plus(&decimal("1")), None);
        let smallest = format!("1e-{MAX_PLACES}");
        assert_eq!(decimal(&smallest).to_string().len(), MAX_PLACES + 2);
        assert_eq!(
            sum(&format!("1e{}", MAX_PLACES - 1), &smallest).len(),
            2 * MAX_PLACES + 1
        );
    }

    proptest! {
        #[test]
        fn sums_are_those_of_integers(
            a in -(10i128.pow(30))..10i128.pow(30),
            b in -(10i128.pow(30))..10i128.pow(30),
            scale in -20..20,
        ) {
            let text = |number: i128| format!("{number}e{scale}");
            prop_assert_eq!(
                decimal(&text(a)).plus(&decimal(&text(b))),
                Some(decimal(&text(a + b)))
            );
            let written = decimal(&text(a)).to_string();
            prop_assert_eq!(decimal(&written), decimal(&text(a)));
        }
    }
}
