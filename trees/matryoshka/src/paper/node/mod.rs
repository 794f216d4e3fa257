//! The page formats of the report and its variants, the nodes above pages, and where all lie.
//!
//! * `form`: what the tree asks of a page. `page` with `nested`: the report's sub-trees of lines.
//!   `eytzinger`, `flat`: its other forms.
//! * `outer`: the nodes above pages. `arena`: where nodes lie, the only unsafe code of this form.

pub(crate) mod arena;
pub(crate) mod eytzinger;
pub(crate) mod flat;
pub(crate) mod form;
mod nested;
pub(crate) mod outer;
pub(crate) mod page;
