//! The Bw-tree from outside.

mod concurrent;
mod model;
