//! Trees of both forms beside oracles. One program, so that each kind of tree is compiled once.

mod adaption;
mod arrivals;
mod bulk;
mod full_disk;
mod large_values;
mod lost_keys;
mod model;
mod overwrites;
mod prefetched_writes;
mod scan_ahead;
mod shapes;
mod shared_model;
mod shared_threads;
mod steps;
mod uneven_lengths;
mod waiting_writers;
