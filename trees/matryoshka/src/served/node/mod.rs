//! The page format of the served tree: pages, their leaf lines and routing lines, inner nodes.

pub(crate) mod inner;
pub(crate) mod leaf;
pub(crate) mod node_key;
pub(crate) mod page;
pub(crate) mod routing;
pub(crate) mod width;
pub(crate) mod words;
