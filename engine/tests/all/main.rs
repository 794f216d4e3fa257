//! What an engine promises, over each index. One program, so that each is compiled once; what
//! counts the memory of a whole process has a program of its own beside it.

mod bad_input;
mod concurrent;
mod damage;
mod delete_range;
mod expiry;
mod faults;
mod fixed_width;
mod foreign_width;
mod full_disk;
mod hermitage;
mod in_memory;
mod keyspaces;
mod limits;
mod log_dirs;
mod mixed;
mod model;
mod nested_parts;
mod older_checkpoints;
mod order;
mod page_file;
mod page_space;
mod random_key;
mod read_only;
mod redo;
mod reopen;
mod second_opener;
mod snapshot_scans;
mod snapshots;
mod snapshots_beside_faults;
mod transaction_limits;
mod transactions;
mod transactions_beside_writers;
mod transactions_in_closures;
mod transactions_reopened;
mod version_memory;
