//! The Bw-tree from outside.

mod concurrent;
mod forms;
mod model;
mod multimap;
mod remove_range;
mod table_2;
mod thresholds;
