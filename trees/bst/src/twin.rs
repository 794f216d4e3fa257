//! Twins of the lock-free protocols: the same code without one step, which tests must notice.

use std::sync::atomic::AtomicU64;

use hedgerow_sync::word::Word;

/// A step of a protocol that matters only if other threads do the right thing in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A lookup that misses its key validates where it last went to the right.
    MissValidated,
    /// A link's nulls are numbered.
    NullsNumbered,
    /// int-lf: a relocation takes place only if its target has not changed since it was chosen.
    TargetCompared,
    /// int-lf: a removal returns when the marked node is unlinked.
    MarkedUnlinked,
    /// edge-int-lf: the least node is promoted only while the removed node is linked.
    RemovedStillLinked,
    /// edge-int-lf: a node is not removed before the one that had its pair is unlinked.
    PromotedUnlinkedFirst,
    /// edge-int-lf: a removal gives up if its node was promoted.
    PromotionNoticed,
}

/// The word that the lock-free internal trees are made of: in tests shuttle's, or one of a twin.
pub trait TreeWord: Word + 'static {
    /// The step that a twin leaves out. A twin gives no memory back, so that what goes wrong is an
    /// answer.
    const WITHOUT: Option<Step> = None;
}

impl TreeWord for AtomicU64 {}

/// Whether trees of such words leave a step out.
#[inline(always)]
pub(crate) fn leaves_out<W: TreeWord>(step: Step) -> bool {
    W::WITHOUT == Some(step)
}

/// Whether trees of such words give no memory back.
#[inline(always)]
pub(crate) const fn leaks<W: TreeWord>() -> bool {
    W::WITHOUT.is_some()
}
