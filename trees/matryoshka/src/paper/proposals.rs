//! The report's proposals A to E (§12.6), each by itself: what it had before them, and that with
//! one of them (Tables 18 and 19).
//!
//! All have the report's pages with fence keys and mass prefetch. [`Reported`] searches nodes above
//! pages by a binary search with a branch, has no superpages as nodes (those of the kernel
//! it has, as all variants), asks at run time whether pages have fences, and makes batches as the
//! report's §12.3 has them: sorted, one descent for each page. Each of the others changes one of
//! these, and [`AllProposals`] all. The variants that are used
//! ([`variants`](crate::paper::variants)) have C and E built in.

use crate::node_key::NodeKey;
use crate::paper::node::outer::{Blocked, BranchFree, Branching, OuterNode};
use crate::paper::node::page::NestedPage;
use crate::paper::strategy::Strategy;

macro_rules! proposal {
    (
        $(#[$about:meta])*
        $name:ident: $search:ty, heads $heads:literal, pipelined $pipelined:literal,
        compiled $compiled:literal, fan-out $fan_out:literal
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name;

        impl Strategy for $name {
            type Page<L: NodeKey, V: Copy + Default, C: Strategy> = NestedPage<L, V>;
            type Search = $search;
            type Head<L: NodeKey> = [OuterNode<L>; $heads];
            const FENCES: bool = true;
            const COMPILED: bool = $compiled;
            const PIPELINED: bool = $pipelined;
            const FAN_OUT: usize = $fan_out;
        }
    };
}

proposal! {
    /// The report's tree before its proposals.
    Reported: Branching, heads 0, pipelined false, compiled false, fan-out 340
}
proposal! {
    /// Proposal A: superpages (§12.6.1, §12.7.3).
    WithSuperpages: Branching, heads 1, pipelined false, compiled false, fan-out 511
}
proposal! {
    /// Proposal B: batches that prefetch (§12.6.2, §12.7.2).
    WithPipelining: Branching, heads 0, pipelined true, compiled false, fan-out 340
}
proposal! {
    /// Proposal C: a binary search without a branch (§12.6.3, §12.7.1).
    WithoutBranches: BranchFree, heads 0, pipelined false, compiled false, fan-out 340
}
proposal! {
    /// Proposal D: nodes searched a line a level, as FAST does (§12.6.4).
    WithFastNodes: Blocked, heads 0, pipelined false, compiled false, fan-out 340
}
proposal! {
    /// Proposal E: a tree compiled for its strategy (§12.6.5).
    Compiled: Branching, heads 0, pipelined false, compiled true, fan-out 340
}
proposal! {
    /// All five; D takes C's place.
    AllProposals: Blocked, heads 1, pipelined true, compiled true, fan-out 511
}
