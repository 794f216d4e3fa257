//! How large the nodes of a tree become.

/// How large nodes become. Small ones, for tests, split and merge all the time.
pub trait Capacity: Send + Sync + 'static {
    /// Leaf lines of a page, 3 to 58; pages of 32-bit keys never have more than 40.
    const LINES: usize;
    /// Children of an inner node, 4 to 313.
    const FAN_OUT: usize;
    /// Byte keys of one slice that lie side by side before they get a layer of their own, 1 to 16.
    const BUCKET: usize = 16;
}

/// Nodes as large as they can be.
#[derive(Debug, Clone, Copy)]
pub struct Full;

impl Capacity for Full {
    const LINES: usize = super::node::page::MOST_LINES;
    const FAN_OUT: usize = super::node::inner::MOST_CHILDREN;
}
