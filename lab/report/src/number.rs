//! Numbers and dates as people read them.
//!
//! Tables show three or so significant digits with thousands separated, so that columns of
//! different magnitudes stay comparable; axes show the shortest form (`2.5 M`). Figures that
//! are very large or very small become powers of ten rather than rows of zeros.

/// A figure in a table: about three significant digits, whole above a thousand.
pub(crate) fn figure(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        "0".to_owned()
    } else if !(1e-3..1e12).contains(&size) {
        power_of_ten(value, 2)
    } else if size >= 999.5 {
        grouped(value)
    } else if size >= 99.95 {
        format!("{value:.1}")
    } else if size >= 0.995 {
        format!("{value:.2}")
    } else {
        let decimals = 2 - size.log10().floor() as i32;
        format!("{value:.*}", decimals.clamp(2, 6) as usize)
    }
}

/// A ratio with its sign, such as `×1.38`.
pub(crate) fn ratio(value: f64) -> String {
    let size = value.abs();
    if size >= 1e5 || (size > 0.0 && size < 1e-3) {
        format!("×{}", power_of_ten(value, 1))
    } else if size >= 99.5 {
        format!("×{value:.0}")
    } else if size >= 9.95 {
        format!("×{value:.1}")
    } else if size >= 0.095 || size == 0.0 {
        format!("×{value:.2}")
    } else {
        format!("×{value:.3}")
    }
}

/// The shortest form for axes and labels: `250`, `2.5 M`, `0.02`.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-3..1e15).contains(&size) {
        return power_of_ten(value, 2);
    }
    let (scaled, suffix) = match size {
        s if s >= 999.5e9 => (value / 1e12, " T"),
        s if s >= 999.5e6 => (value / 1e9, " G"),
        s if s >= 999.5e3 => (value / 1e6, " M"),
        s if s >= 9_999.5 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let size = scaled.abs();
    let decimals = match size {
        s if s >= 100.0 => 0,
        s if s >= 10.0 => 1,
        s if s >= 1.0 => 2,
        s => (2 - s.log10().floor() as i32).clamp(2, 5) as usize,
    };
    format!("{}{suffix}", trimmed(&format!("{scaled:.decimals$}")))
}

/// A count or parameter: digits in groups of three, and a fraction if there is one.
pub(crate) fn plain(value: f64) -> String {
    if value.abs() >= 1e15 || (value != 0.0 && value.abs() < 1e-4) {
        return power_of_ten(value, 3);
    }
    if value.fract() == 0.0 {
        return grouped(value);
    }
    trimmed(&format!("{value:.4}")).to_owned()
}

/// Digits in groups of three, rounded to a whole number.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    if value < 0.0 {
        text.push('−');
    }
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1.25×10⁻⁷`.
fn power_of_ten(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$e}");
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    let mut out = format!("{}×10", trimmed(mantissa));
    for character in exponent.chars() {
        out.push(match character.to_digit(10) {
            Some(digit) => ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'][digit as usize],
            None => '⁻',
        });
    }
    out
}

/// Without zeros at the end of a fraction.
fn trimmed(text: &str) -> &str {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.')
    } else {
        text
    }
}

/// A moment in UTC, to the minute, such as `2025-03-09 14:05 UTC`.
pub(crate) fn moment(seconds_since_1970: u64) -> String {
    let days = (seconds_since_1970 / 86_400) as i64;
    let minutes = seconds_since_1970 % 86_400 / 60;
    let Date { year, month, day } = Date::of(days);
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02} UTC",
        minutes / 60,
        minutes % 60
    )
}

/// A date of the calendar.
struct Date {
    year: i64,
    /// From 1.
    month: i64,
    /// From 1.
    day: i64,
}

impl Date {
    /// The date of a day since 1970, by the cycle of 400 years that the calendar repeats in,
    /// counted from a first of March so that leap days come last.
    fn of(days: i64) -> Self {
        let days = days + 719_468;
        let cycle = days.div_euclid(146_097);
        let day_of_cycle = days.rem_euclid(146_097);
        let year_of_cycle = (day_of_cycle - day_of_cycle / 1_460 + day_of_cycle / 36_524
            - day_of_cycle / 146_096)
            / 365;
        let day_of_year =
            day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 {
            shifted_month + 3
        } else {
            shifted_month - 9
        };
        let year = year_of_cycle + cycle * 400 + i64::from(month <= 2);
        Self { year, month, day }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_about_three_digits() {
        let cases = [
            (0.0, "0"),
            (0.01234, "0.0123"),
            (0.5, "0.500"),
            (1.0, "1.00"),
            (12.345, "12.35"),
            (123.45, "123.5"),
            (999.6, "1,000"),
            (1_234_567.8, "1,234,568"),
            (-1234.0, "−1,234"),
            (1.5e300, "1.5×10³⁰⁰"),
            (2.5e-9, "2.5×10⁻⁹"),
        ];
        for (value, expected) in cases {
            assert_eq!(figure(value), expected);
        }
    }

    #[test]
    fn ratios_axes_and_parameters_are_short() {
        let ratios = [1.384, 12.34, 1234.4, 0.0123, 1e9].map(ratio);
        assert_eq!(ratios, ["×1.38", "×12.3", "×1234", "×0.012", "×1×10⁹"]);
        let axes = [
            250.0,
            2_500_000.0,
            0.02,
            1e10,
            999_999.0,
            0.3,
            1e-12,
            10_000.0,
        ]
        .map(short);
        assert_eq!(
            axes,
            [
                "250",
                "2.5 M",
                "0.02",
                "10 G",
                "1 M",
                "0.3",
                "1×10⁻¹²",
                "10 k"
            ]
        );
        let parameters = [10_000_000.0, 0.99, 64.0, 1e18].map(plain);
        assert_eq!(parameters, ["10,000,000", "0.99", "64", "1×10¹⁸"]);
    }

    #[test]
    fn dates_know_leap_years() {
        assert_eq!(moment(0), "1970-01-01 00:00 UTC");
        assert_eq!(moment(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(moment(1_741_529_100), "2025-03-09 14:05 UTC");
    }
}
