//! What a pool and other providers of pages promise. One program, so that each is linked once; what
//! counts the memory of a whole process has a program of its own beside it.

mod compact;
mod crash;
mod pool;
mod resident;
mod views;
