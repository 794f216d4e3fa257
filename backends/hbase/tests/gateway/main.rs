//! The client beside gateways that misbehave on purpose, beside the interface definition, and
//! beside a real cluster where `HEDGEROW_HBASE_URL` names one.

mod checked_writes;
mod cluster;
mod definition;
mod fake;
mod frames;
mod generated;
mod pool;
mod retries;
#[allow(dead_code, reason = "the ledger of lost answers uses more of it")]
#[path = "../lost_replies/table.rs"]
mod table;
mod together;
