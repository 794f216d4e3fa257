//! Power cuts, modelled: run a workload on a recording file layer, cut the power between any two
//! file operations, let any subset of what was not synced survive, recover, and judge. Each key is
//! written by one thread, but in [`serial_order`], whose transactions meet in a few.

pub mod campaign;
pub mod db_subject;
pub mod log_subject;
pub mod oracle;
pub mod serial_order;
pub mod verdicts;
pub mod workload;

pub use campaign::{PowerCutCampaign, PowerCutReport, Subject, run};
pub use db_subject::DbSubject;
pub use log_subject::LogSubject;
pub use serial_order::SerialOrderReport;
