//! Trees of both kinds beside oracles. One program, so that each is compiled and linked once.

mod paper;
mod served;
