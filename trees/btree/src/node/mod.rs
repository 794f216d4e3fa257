//! One page: its format, and every search and change within it. Nothing here knows who else has
//! the page; both trees run this code.
//!
//! Reading order: [`page`] (the header), [`layout`] (records), [`first_word`], [`search`], [`edit`]
//! and [`slotted`]; [`form`] and [`leaf`] (what all leaves can do), [`fingerprint`], [`dense`] and
//! [`fully_dense`]; [`split`], [`runs`] and [`merge`] (what two nodes are made of); [`heads`],
//! [`plan`], [`densify`] and [`adapt`] (which form a leaf has); [`key`], [`chain`], [`overflow`]
//! and [`shared_overflow`] (what does not fit a leaf).

pub(crate) mod adapt;
pub(crate) mod chain;
pub(crate) mod dense;
pub(crate) mod densify;
pub(crate) mod edit;
pub(crate) mod fingerprint;
pub(crate) mod first_word;
pub(crate) mod form;
pub(crate) mod fully_dense;
pub(crate) mod heads;
pub(crate) mod key;
pub(crate) mod layout;
pub(crate) mod leaf;
pub(crate) mod leaf_range;
pub(crate) mod merge;
pub(crate) mod overflow;
pub(crate) mod page;
pub(crate) mod plan;
pub(crate) mod prefetch;
pub(crate) mod runs;
pub(crate) mod search;
pub(crate) mod shared_overflow;
pub(crate) mod slotted;
pub(crate) mod split;
