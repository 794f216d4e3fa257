//! Every peer that this build and this machine have, beside a model. One program, so that the peers
//! are linked once.

mod maps;
mod servers;
mod stores;
