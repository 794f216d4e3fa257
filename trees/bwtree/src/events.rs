//! What is counted as it happens, in striped counters and only on rare paths.

/// Things that are counted when they happen.
#[derive(Clone, Copy)]
#[repr(usize)]
pub(crate) enum Event {
    Retries,
    RootRetries,
    RightSteps,
    RemovedMet,
    LostAppends,
    LostConsolidations,
    Consolidations,
    InnerConsolidations,
    ReplayedConsolidations,
    ReadConsolidations,
    ConsolidatedDeltas,
    ChunksFull,
    FarDeltas,
    LeafSplits,
    InnerSplits,
    RootGrowths,
    SeparatorsPosted,
    HelpedSeparators,
    Aborts,
    HelpedMerges,
    Merges,
    RootShrinks,
    RangeLeaves,
    IdsRetired,
    IdsDiscarded,
    Redirections,
}

/// How many kinds of events there are.
pub(crate) const EVENTS: usize = 26;

/// Their names and what they say.
pub(crate) const EVENT_NAMES: [(&str, &str); EVENTS] = [
    (
        "retries",
        "Updates begun again because another thread changed the leaf first.",
    ),
    (
        "root_retries",
        "Of these, those that descended from the root again.",
    ),
    (
        "right_steps",
        "Steps to a right neighbour that a parent did not know yet.",
    ),
    (
        "removed_met",
        "Removed nodes that a descent met before they were out of its way.",
    ),
    (
        "lost_appends",
        "Delta records whose compare-and-swap failed.",
    ),
    (
        "lost_consolidations",
        "Consolidated nodes whose compare-and-swap failed.",
    ),
    (
        "consolidations",
        "Chains replaced by a base node, splits not counted.",
    ),
    ("inner_consolidations", "Of these, those of inner nodes."),
    (
        "replayed_consolidations",
        "Of these, those that applied deltas one by one, not by their offsets.",
    ),
    (
        "read_consolidations",
        "Chains that lookups and scans consolidated, or split, which had walked enough records.",
    ),
    (
        "consolidated_deltas",
        "Delta records on chains that were replaced: with `deltas`, all that were appended.",
    ),
    (
        "chunks_full",
        "Changes for which the chunk had no room, so that the node was consolidated.",
    ),
    (
        "far_deltas",
        "Changes whose block the allocator placed too far away, without chunks alone.",
    ),
    ("leaf_splits", "Leaves split because they were full."),
    ("inner_splits", "Inner nodes split because they were full."),
    ("root_growths", "Levels added."),
    (
        "separators_posted",
        "Separators of split nodes put on their parents.",
    ),
    (
        "helped_separators",
        "Nodes met whose parent lacked their separator, and for which it was posted.",
    ),
    (
        "aborts",
        "Merges begun: parents closed to other changes until a merge is done.",
    ),
    (
        "helped_merges",
        "Unfinished merges met, and completed before anything else.",
    ),
    ("merges", "Nodes merged into their left neighbours."),
    ("root_shrinks", "Levels taken away."),
    (
        "range_leaves",
        "Leaves that removals of ranges replaced by what is left of them.",
    ),
    ("ids_retired", "Ids of removed nodes, to be used again."),
    (
        "ids_discarded",
        "Ids of new nodes that another thread made superfluous.",
    ),
    (
        "redirections",
        "Links to nodes that were changed because the node's chunk was replaced.",
    ),
];
