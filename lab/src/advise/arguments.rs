//! What `hedgerow-lab advise` is asked for.

use std::path::PathBuf;

/// What to advise on.
#[derive(Debug, clap::Args)]
pub struct AdviseArguments {
    /// A file with one key a line, - for standard input, or a key set such as fetched:paths.
    #[arg(long, value_name = "FILE")]
    pub(super) keys: String,
    /// The size of your values. Maps hold 8 bytes, in place of a pointer to larger ones.
    #[arg(long, value_name = "BYTES", default_value_t = 8)]
    pub(super) values: usize,
    /// Shares of read/update/insert/remove/scan, in any unit.
    #[arg(long, default_value = "80/10/5/0/5", value_parser = parse_mix)]
    pub(super) mix: [f64; 5],
    /// Which keys are popular: uniform, zipf:ALPHA, hot:OPERATIONS:KEYS and others.
    #[arg(long, default_value = "zipf:0.99")]
    pub(super) distribution: String,
    /// Pairs that a scan returns.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) scan_length: u32,
    /// Only maps that many threads can use at once.
    #[arg(long)]
    pub(super) concurrent: bool,
    /// Seconds that all of it may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(super) time_budget: u64,
    /// The most keys that take part.
    #[arg(long, value_name = "KEYS", default_value_t = 10_000_000)]
    pub(super) most_keys: usize,
    /// Write all rounds as JSON lines to this file, in the form of `run --json`.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write the table and its plots into this folder: report.html, report.md, an .svg each.
    #[arg(long, value_name = "FOLDER")]
    pub(super) out: Option<PathBuf>,
}

impl AdviseArguments {
    /// The shares in percent, as they may be given.
    pub(super) fn mix_text(&self) -> String {
        let shares = self.mix.map(|share| format!("{:.0}", share * 100.0));
        shares.join("/")
    }

    /// Bytes of a value that the map only points to.
    pub(super) fn pointed_to_bytes(&self) -> usize {
        if self.values > 8 { self.values } else { 0 }
    }
}

/// Five shares divided by slashes, brought to a sum of 1.
fn parse_mix(text: &str) -> std::result::Result<[f64; 5], String> {
    let shares: Vec<f64> = text
        .split('/')
        .map(|share| share.trim().parse().unwrap_or(f64::NAN))
        .collect();
    let wrong = || {
        format!("'{text}' is not five shares read/update/insert/remove/scan, such as 80/10/5/0/5")
    };
    let shares: [f64; 5] = shares.try_into().map_err(|_| wrong())?;
    let sum: f64 = shares.iter().sum();
    let valid = shares.iter().all(|share| (0.0..1e12).contains(share)) && sum > 0.0;
    if !valid {
        return Err(wrong());
    }
    Ok(shares.map(|share| share / sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_are_brought_to_a_sum_of_one_or_refused() {
        assert_eq!(parse_mix("80/10/5/0/5"), Ok([0.8, 0.1, 0.05, 0.0, 0.05]));
        assert_eq!(parse_mix("1/1/0/0/0"), Ok([0.5, 0.5, 0.0, 0.0, 0.0]));
        for wrong in [
            "",
            "1/2/3",
            "0/0/0/0/0",
            "-1/2/0/0/0",
            "a/b/c/d/e",
            "1/0/0/0/0/0",
            "inf/0/0/0/0",
        ] {
            assert!(
                parse_mix(wrong)
                    .expect_err(wrong)
                    .contains("is not five shares")
            );
        }
    }
}
