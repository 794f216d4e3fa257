//! The Bw-tree from outside.

mod concurrent;
mod model;
mod multimap;
mod remove_range;
mod table_2;
