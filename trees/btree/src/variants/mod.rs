//! Layouts of the paper that the database does not use. The lab measures them, in both trees.
//!
//! [`Adaptive`](crate::configuration::Adaptive), which the database uses, has leaves of slots, with
//! fingerprints, and fully dense ones. Semi dense leaves are here; the other configurations of
//! [`configuration`](crate::configuration) leave out parts of what is in `node`.

pub(crate) mod semi_dense;
