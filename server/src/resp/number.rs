//! Numbers in arguments and values, with Redis' rules.

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

/// Decimal places that sums of fractions keep, as in Redis.
const PLACES: u32 = 17;

/// A number for `INCRBYFLOAT`: exact if it is a decimal of usual size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Real {
    /// In units of 10^-17.
    Exact(i128),
    Float(f64),
}

impl Real {
    /// Reads a finite number, or an infinity that is spelled out.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Real> {
        let text = std::str::from_utf8(bytes).ok()?;
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        if unsigned.eq_ignore_ascii_case("inf") || unsigned.eq_ignore_ascii_case("infinity") {
            let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
            return Some(Real::Float(sign * f64::INFINITY));
        }
        if text.is_empty()
            || !text
                .bytes()
                .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b))
        {
            return None;
        }
        let float: f64 = text.parse().ok()?;
        if !float.is_finite() {
            return None;
        }
        Some(exact(text).map_or(Real::Float(float), Real::Exact))
    }

    pub(crate) fn is_finite(self) -> bool {
        self.float().is_finite()
    }

    fn float(self) -> f64 {
        match self {
            Real::Exact(units) => units as f64 / 10f64.powi(PLACES as i32),
            Real::Float(float) => float,
        }
    }

    /// The sum as Redis writes it; `None` if it is not finite.
    pub(crate) fn plus(self, other: Real) -> Option<String> {
        if let (Real::Exact(a), Real::Exact(b)) = (self, other)
            && let Some(sum) = a.checked_add(b)
        {
            return Some(format_exact(sum));
        }
        let sum = self.float() + other.float();
        sum.is_finite().then(|| format!("{sum}"))
    }
}

fn exact(text: &str) -> Option<i128> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !plain(whole) || !plain(fraction) || fraction.len() > PLACES as usize || whole.len() > 20 {
        return None;
    }
    let mut units: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    units *= 10i128.pow(PLACES);
    if !fraction.is_empty() {
        let places = PLACES - fraction.len() as u32;
        units += fraction.parse::<i128>().ok()? * 10i128.pow(places);
    }
    Some(if negative { -units } else { units })
}

fn format_exact(units: i128) -> String {
    let unit = 10u128.pow(PLACES);
    let magnitude = units.unsigned_abs();
    let (whole, fraction) = (magnitude / unit, magnitude % unit);
    let sign = if units < 0 { "-" } else { "" };
    if fraction == 0 {
        return format!("{sign}{whole}");
    }
    let fraction = format!("{fraction:017}");
    format!("{sign}{whole}.{}", fraction.trim_end_matches('0'))
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
    fn sums_of_decimals_are_exact() {
        let sum = |a: &str, b: &str| {
            Real::parse(a.as_bytes())
                .unwrap()
                .plus(Real::parse(b.as_bytes()).unwrap())
                .unwrap()
        };
        assert_eq!(sum("0.1", "0.2"), "0.3");
        assert_eq!(sum("10.50", "0.1"), "10.6");
        assert_eq!(sum("5.0e3", "200"), "5200");
        assert_eq!(sum("3", "-5.25"), "-2.25");
        assert_eq!(sum("-0.5", "0.5"), "0");
        assert!(Real::parse(b"1e400").is_none() && Real::parse(b"nan").is_none());
        for infinite in ["inf", "+INF", "-Infinity"] {
            let infinite = Real::parse(infinite.as_bytes()).unwrap();
            assert!(!infinite.is_finite());
            assert!(Real::parse(b"1").unwrap().plus(infinite).is_none());
        }
        assert!(
            Real::parse(b"1e308")
                .unwrap()
                .plus(Real::parse(b"1.7e308").unwrap())
                .is_none()
        );
    }
}
