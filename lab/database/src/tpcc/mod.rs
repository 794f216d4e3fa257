//! TPC-C (revision 5.11): an order-entry business, in the lab's database and over Hedgerow's own
//! engine.
//!
//! Rows, inputs, and what transactions compute are the same for both, and so are the consistency
//! conditions, which are checked after every run.

mod answers;
mod columns;
mod consistency;
mod draws;
mod in_engine;
mod in_memory;
mod input;
mod keys;
mod population;
mod restock;
mod run;
#[cfg(test)]
mod scenarios;
mod size;

pub use columns::Table;
pub use consistency::Done;
pub use in_engine::EngineDatabase;
pub use in_memory::LoadedTpcc;
pub use input::{Mix, TRANSACTIONS};
pub use run::Tpcc;
pub use size::Size;
