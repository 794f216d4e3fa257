//! One leg of a round: a workload that runs on the loaded records.

use hedgerow_lab_data::workload::{Amount, Mix, ScanLength};
use hedgerow_lab_data::{Distribution, KeySet, Workload};
use serde::{Deserialize, Serialize};

use crate::{LabError, Result};

/// A workload that runs on the loaded records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leg {
    /// Lookups of records that are drawn uniformly.
    Get,
    /// Lookups by the Zipf distribution of the sources (α = 0.99).
    ZipfGet,
    /// Scans of 50 pairs from uniform records.
    Scan,
    /// New values for uniform records.
    Update,
    /// A workload file, such as `ycsb/a`.
    Named(String),
    /// Removals of half of the operations, inserts and lookups of a quarter each. The last leg.
    DeleteHeavy,
}

impl Leg {
    /// Its column.
    #[must_use]
    pub fn column(&self) -> &str {
        match self {
            Self::Get => "get",
            Self::ZipfGet => "get zipf",
            Self::Scan => "scan 50",
            Self::Update => "update",
            Self::Named(name) => name,
            Self::DeleteHeavy => "delete-heavy",
        }
    }

    /// Whether it changes nothing.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        matches!(self, Self::Get | Self::ZipfGet | Self::Scan)
    }

    /// What it does.
    pub(super) fn workload(&self, operations: u64) -> Result<Workload> {
        let failed = |error: hedgerow_lab_data::WorkloadError| LabError::Usage(error.to_string());
        let mut mix = Mix::default();
        let mut distribution = Distribution::Uniform;
        match self {
            Self::Get => mix.read = 1.0,
            Self::ZipfGet => {
                mix.read = 1.0;
                distribution = "zipf:0.99".parse().map_err(LabError::from_display)?;
            }
            Self::Scan => mix.scan = 1.0,
            Self::Update => mix.update = 1.0,
            Self::DeleteHeavy => (mix.remove, mix.insert, mix.read) = (0.5, 0.25, 0.25),
            Self::Named(name) => {
                let mut workload = Workload::named(name).map_err(failed)?;
                workload.operations = Amount::Exactly(operations);
                return Ok(workload);
            }
        }
        let length = ScanLength {
            least: 50,
            most: 50,
        };
        let mut workload = Workload::of_mix(self.column(), KeySet::Ycsb, mix, distribution, length)
            .map_err(failed)?;
        workload.operations = Amount::Exactly(operations);
        Ok(workload)
    }
}
