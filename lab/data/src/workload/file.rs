//! From a workload's file to a [`Workload`], or to a line that says what is wrong with it.

use serde::Deserialize;

use super::{Amount, Mix, ScanLength, Value, Workload, WorkloadError};
use crate::{Distribution, KeySet};

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: String,
    title: String,
    source: String,
    note: Option<String>,
    keys: String,
    #[serde(default)]
    paper_records: Vec<u64>,
    #[serde(default)]
    load: Load,
    #[serde(default)]
    churn: f64,
    operations: Option<u64>,
    operations_per_record: Option<f64>,
    space: Option<f64>,
    #[serde(default)]
    mix: Mix,
    #[serde(default)]
    alternating: bool,
    #[serde(default = "uniform")]
    distribution: String,
    scan_length: Option<String>,
    #[serde(default)]
    value: Value,
}

fn uniform() -> String {
    "uniform".to_owned()
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Load {
    share: f64,
    sorted: bool,
    timed: bool,
}

impl Default for Load {
    fn default() -> Self {
        Self {
            share: 1.0,
            sorted: false,
            timed: false,
        }
    }
}

/// The largest multiple of the records that a file may ask for, so that counts stay numbers.
const MOST_PER_RECORD: f64 = 1000.0;

impl Workload {
    /// Reads a workload from the text of its file; `file` is what errors call it.
    ///
    /// # Errors
    ///
    /// When the text is not TOML, names what does not exist, or contradicts itself.
    pub fn parse(text: &str, file: &str) -> Result<Self, WorkloadError> {
        let written: Written = toml::from_str(text).map_err(|error| WorkloadError::Syntax {
            file: file.to_owned(),
            message: one_line(text, &error),
        })?;
        let invalid = |what: String| WorkloadError::Invalid {
            file: file.to_owned(),
            what,
        };
        let workload = assemble(written).map_err(invalid)?;
        workload.check().map_err(invalid)?;
        Ok(workload)
    }

    /// A workload of one's own: everything is loaded, then one operation per record follows.
    ///
    /// # Errors
    ///
    /// When the shares do not add up to 1.
    pub fn of_mix(
        name: &str,
        keys: KeySet,
        mix: Mix,
        distribution: Distribution,
        scan_length: ScanLength,
    ) -> Result<Self, WorkloadError> {
        let workload = Self {
            name: name.to_owned(),
            title: name.to_owned(),
            source: "the user".to_owned(),
            note: None,
            keys,
            paper_records: Vec::new(),
            loaded: 1.0,
            load_sorted: false,
            load_timed: false,
            churn: 0.0,
            operations: Amount::PerRecord(1.0),
            anywhere: false,
            space: 1.0,
            mix,
            alternating: false,
            distribution,
            scan_length,
            value: Value::default(),
        };
        let invalid = |what| WorkloadError::Invalid {
            file: name.to_owned(),
            what,
        };
        workload.check().map_err(invalid)?;
        Ok(workload)
    }

    /// What is wrong with the numbers.
    fn check(&self) -> Result<(), String> {
        for (kind, share) in self.mix.shares() {
            if !(0.0..=1.0).contains(&share) {
                return Err(format!(
                    "the share of {} is {share}, not from 0 to 1",
                    kind.name()
                ));
            }
        }
        let sum: f64 = self.mix.shares().iter().map(|(_, share)| share).sum();
        if self.load_timed {
            if sum != 0.0 {
                return Err("a workload whose load is timed has no mix of operations".to_owned());
            }
        } else if (sum - 1.0).abs() > 1e-9 {
            return Err(format!("the shares of the mix add up to {sum}, not to 1"));
        }
        if !(0.0..=1.0).contains(&self.loaded) {
            return Err(format!(
                "the share to load is {}, not from 0 to 1",
                self.loaded
            ));
        }
        let multiples = [("churn", self.churn), ("space", self.space)];
        let operations = match self.operations {
            Amount::PerRecord(multiple) => multiple,
            Amount::Exactly(_) => 0.0,
        };
        for (what, multiple) in multiples
            .into_iter()
            .chain([("operations_per_record", operations)])
        {
            if !(0.0..=MOST_PER_RECORD).contains(&multiple) {
                return Err(format!(
                    "{what} is {multiple}, not from 0 to {MOST_PER_RECORD}"
                ));
            }
        }
        if self.anywhere && (self.space <= 0.0 || self.space < self.loaded) {
            return Err(format!(
                "a space of {} is smaller than what is loaded",
                self.space
            ));
        }
        let [one, whole] = [self.value.columns, self.value.column_bytes];
        let touched = [self.value.read, self.value.update, self.value.scan];
        if one == 0 || whole == 0 || touched.iter().any(|columns| *columns > one) {
            return Err(
                "a record needs a column, and operations touch no more than it has".to_owned(),
            );
        }
        let reads_first = self.mix.inserting() == 0.0 && !self.load_timed;
        if self.loaded == 0.0 && !self.anywhere && reads_first {
            return Err(
                "nothing is loaded and nothing inserted: there is nothing to operate on".to_owned(),
            );
        }
        Ok(())
    }
}

fn assemble(written: Written) -> Result<Workload, String> {
    let operations = match (written.operations, written.operations_per_record) {
        (Some(count), None) => Amount::Exactly(count),
        (None, multiple) => Amount::PerRecord(multiple.unwrap_or(1.0)),
        (Some(_), Some(_)) => {
            return Err("give operations or operations_per_record, not both".to_owned());
        }
    };
    let scan_length = match written.scan_length {
        Some(length) => length.parse()?,
        None if written.mix.scan > 0.0 => {
            return Err("a mix with scans needs a scan_length, such as uniform:1:100".to_owned());
        }
        None => ScanLength { least: 1, most: 1 },
    };
    Ok(Workload {
        name: written.name,
        title: written.title,
        source: written.source,
        note: written.note,
        keys: written
            .keys
            .parse()
            .map_err(|error: crate::KeySetError| error.to_string())?,
        paper_records: written.paper_records,
        loaded: written.load.share,
        load_sorted: written.load.sorted,
        load_timed: written.load.timed,
        churn: written.churn,
        operations,
        anywhere: written.space.is_some(),
        space: written.space.unwrap_or(1.0),
        mix: written.mix,
        alternating: written.alternating,
        distribution: written
            .distribution
            .parse()
            .map_err(|error: crate::UnknownDistribution| error.to_string())?,
        scan_length,
        value: written.value,
    })
}

/// The parser's message on one line, with the line of the text that it is about.
fn one_line(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().replace('\n', "; ");
    match error.span() {
        Some(span) => {
            let before = &text.as_bytes()[..span.start.min(text.len())];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            format!("line {line}: {message}")
        }
        None => message,
    }
}
