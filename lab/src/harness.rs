//! What the lab does around the threads of its database: it binds each to a processor, and counts
//! what they do if it was asked to.

use hedgerow_lab_database::Harness;

use crate::counters;
use crate::machine::pin_this_thread;

/// For every run of the database that is measured.
pub const HARNESS: Harness = Harness {
    pin: pin_this_thread,
    around: |threads| counters::during(threads),
};
