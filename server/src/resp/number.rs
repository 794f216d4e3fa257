//! Numbers in arguments and values, with Redis' rules.

use crate::resp::decimal::Decimal;
use crate::resp::failure::{Failure, Outcome};
use crate::shared::DATABASES;

/// A 64-bit integer written canonically: no plus sign, no leading zeros, no blanks.
pub(crate) fn integer(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let canonical = match digits {
        [b'0'] => bytes.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !canonical {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// An integer argument.
pub(crate) fn argument(bytes: &[u8]) -> Outcome<i64> {
    integer(bytes).ok_or(Failure::NotInteger)
}

/// The number of a database.
pub(crate) fn database(bytes: &[u8]) -> Outcome<usize> {
    let number = argument(bytes)?;
    if i32::try_from(number).is_err() {
        return Err(Failure::text(format!(
            "ERR value is out of range, value must between {} and {}",
            i32::MIN,
            i32::MAX
        )));
    }
    let known = usize::try_from(number).ok();
    let known = known.filter(|number| *number < DATABASES);
    known.ok_or(Failure::text("ERR DB index is out of range"))
}

/// A number for `INCRBYFLOAT`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Real {
    Finite(Decimal),
    Infinite,
}

impl Real {
    /// Reads a decimal number, or an infinity that is spelled out.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Real> {
        let unsigned = bytes.strip_prefix(b"-").or(bytes.strip_prefix(b"+"));
        let unsigned = unsigned.unwrap_or(bytes);
        if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity") {
            return Some(Real::Infinite);
        }
        Decimal::parse(bytes).map(Real::Finite)
    }

    /// Whether it is not an infinity.
    pub(crate) fn is_finite(&self) -> bool {
        matches!(self, Real::Finite(_))
    }

    /// The sum as Redis writes it; `None` if it is not finite, or has too many digits.
    pub(crate) fn plus(&self, other: &Real) -> Option<String> {
        match (self, other) {
            (Real::Finite(a), Real::Finite(b)) => a.plus(b).map(|sum| sum.to_string()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_must_be_canonical() {
        for good in ["0", "-1", "9223372036854775807", "-9223372036854775808"] {
            assert_eq!(integer(good.as_bytes()), good.parse().ok());
        }
        for bad in [
            "",
            "-",
            "-0",
            "01",
            "+1",
            " 1",
            "1 ",
            "1.0",
            "9223372036854775808",
        ] {
            assert_eq!(integer(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn sums_of_infinities_are_none() {
        let real = |text: &str| Real::parse(text.as_bytes()).unwrap();
        assert_eq!(real("5.0e3").plus(&real("0.1")), Some("5000.1".into()));
        assert!(Real::parse(b"1e5000").is_none() && Real::parse(b"nan").is_none());
        for infinite in ["inf", "+INF", "-Infinity"] {
            assert!(!real(infinite).is_finite());
            assert!(real("1").plus(&real(infinite)).is_none());
        }
    }
}
