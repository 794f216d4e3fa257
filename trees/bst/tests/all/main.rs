//! The trees beside the model, with recorded histories, and what is theirs alone.

mod citrus;
mod edge_ext_lf;
mod edge_int_lf;
mod ext_lf;
mod int_lf;
mod log_int;
mod occ_avl;
mod served;
mod suite;
mod ticket;
mod written_fields;
