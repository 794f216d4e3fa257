//! The tree beside oracles. One program, so that the tree and what drives it are linked once.

mod concurrent;
mod folding;
mod mechanisms;
mod model;
mod widths;
