//! The trees for many threads: the map of words, and the index of byte keys.

mod bytes;
mod shared;
