//! The Bw-tree from outside.

mod concurrent;
mod model;
mod table_2;
