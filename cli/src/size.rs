//! Sizes and times as people write them: `512MiB`, `2G`, `200ms`, `5m`.

use std::time::Duration;

/// Parses a number of bytes: digits with an optional unit, in powers of 1024.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(format!("{text:?} is no size; write it like 512MiB or 2GiB")),
    };
    let number: u64 = number
        .parse()
        .map_err(|_| format!("{text:?} is no size; write it like 512MiB or 2GiB"))?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| format!("{text:?} is too large"))
}

/// Parses a duration: digits with a unit `ms`, `s`, `m` or `h`; zero needs none.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let number: u64 = number
        .parse()
        .map_err(|_| format!("{text:?} is no duration; write it like 200ms or 5m"))?;
    let ms = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "" if number == 0 => 1,
        _ => {
            return Err(format!(
                "{text:?} is no duration; write it like 200ms or 5m"
            ));
        }
    };
    number
        .checked_mul(ms)
        .map(Duration::from_millis)
        .ok_or_else(|| format!("{text:?} is too long"))
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim_start())
}

/// A number of bytes for people.
pub(crate) fn show_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// A number for people: its digits in groups of three.
pub(crate) fn show_count(count: u64) -> String {
    let digits = count.to_string();
    let mut shown = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// How much of a number of bytes is done, for people.
pub(crate) fn show_share(done: u64, total: u64) -> String {
    let percent = done as f64 * 100.0 / total.max(1) as f64;
    let (done, total) = (show_bytes(done), show_bytes(total));
    format!("{percent:.0} % ({done} of {total})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("0"), Ok(0));
        assert_eq!(bytes("512"), Ok(512));
        assert_eq!(bytes("2GiB"), Ok(2 << 30));
        assert_eq!(bytes("16 m"), Ok(16 << 20));
        for wrong in ["", "x", "2Gi B", "-1", "1.5G", "99999999999999T"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
        assert_eq!(show_bytes(1536), "1.5 KiB");
        assert_eq!(show_bytes(12), "12 B");
        assert_eq!(show_share(1024, 4096), "25 % (1.0 KiB of 4.0 KiB)");
        assert_eq!(show_share(0, 0), "0 % (0 B of 0 B)");
        assert_eq!(show_count(999), "999");
        assert_eq!(show_count(1_234_567), "1,234,567");
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "5", "5 days", "ms", "99999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
