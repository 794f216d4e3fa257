//! What HBase cannot do, and why.

use hedgerow::backend::{Capability, Unsupported};

/// Why HBase cannot do something; `None` if it can.
pub(crate) fn because(capability: Capability) -> Option<&'static str> {
    match capability {
        Capability::SeveralRows => Some(
            "HBase's atomicity ends at a row; keep what changes together in the fields of one \
             hash, or change the rows one by one",
        ),
        Capability::InteractiveTransactions => Some(
            "HBase has no transactions over several requests; use MULTI and EXEC over one row, or \
             WATCH",
        ),
        Capability::Snapshots => Some(
            "HBase cannot read several rows at one moment; take a snapshot of the table in HBase's \
             shell",
        ),
        Capability::Checkpoints => Some(
            "HBase writes its logs and files by itself; flush the table in HBase's shell if you \
             must",
        ),
        Capability::Backups => Some(
            "HBase keeps copies of its tables by itself; take a snapshot of the table in HBase's \
             shell",
        ),
        Capability::RandomKeys => Some("HBase does not count the rows of its regions; use SCAN"),
        Capability::AtomicRanges => Some("HBase removes row after row"),
        Capability::Counts => Some("HBase does not count rows: DBSIZE walks through all of them"),
        Capability::Watches => None,
    }
}

/// What a request gets that needs something that HBase cannot do.
pub(crate) fn refusal(capability: Capability) -> hedgerow::Error {
    let because = because(capability).unwrap_or("HBase cannot do this");
    let refused = Unsupported {
        capability,
        because,
    };
    refused.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_fits_a_line_of_a_protocol() {
        for capability in Capability::ALL {
            let because = because(capability).unwrap_or_default();
            assert!(!because.contains(['\r', '\n']) && because.len() < 200);
        }
    }
}
