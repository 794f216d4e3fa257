//! Bugs on purpose, for each tree at least one of those that its paper warns of
//! (`hedgerow-planted` says how and why). `bst_races` in the testkit must find each.

hedgerow_planted::bugs! {
    /// occ-avl: a rotation does not mark the node whose range of keys shrinks.
    OccAvlShrinkingNotMarked,
    /// occ-avl: a search validates the child that it goes on to, but not where it comes from.
    OccAvlOnlyChildValidated,
    /// occ-avl: a scan goes on from an ancestor whose range of keys has shrunk.
    OccAvlScanNotValidated,
    /// occ-avl: a scan takes a step from a node whose range of keys has shrunk for an empty link.
    OccAvlScanStepNotValidated,
    /// occ-avl: a lookup of a batch misses its key at a node whose range of keys has shrunk.
    OccAvlBatchNotValidated,
    /// edge-ext-lf: the edge to the sibling that stays is not tagged before it is moved up.
    EdgeExtLfSiblingNotTagged,
    /// ext-lf: the parent is not marked before the grandparent's link passes it by.
    ExtLfParentNotMarked,
    /// ticket: a removal locks the links of the leaf's parent whatever became of them.
    TicketParentNotCompared,
    /// log-int: a lookup that misses its key in the tree does not ask the list.
    LogIntTreeTrusted,
    /// citrus: a removal does not wait for searches before it unlinks the successor that it copied.
    CitrusNoGracePeriod,
    /// int-lf: a lookup that misses its key does not validate where it last went to the right.
    IntLfMissNotValidated,
    /// int-lf: a descriptor that no node names any more is allocated again at once.
    IntLfDescriptorReusedAtOnce,
    /// edge-int-lf: a lookup that misses its key does not notice that a pair was promoted past it.
    EdgeIntLfMissNotValidated,
}
