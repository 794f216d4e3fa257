//! Power cuts, modelled: run a workload on a recording file layer, cut the power between any two
//! file operations, let any subset of what was not synced survive, recover, and judge.

pub mod oracle;
