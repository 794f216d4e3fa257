//! What is decided when a tree's type is written: which of the paper's optimisations it has.
//!
//! The names are those of the evaluation (§4), each adding one idea to the one before, so that
//! a factor analysis is a list of types.

mod sealed {
    pub trait Sealed {}
}

/// Which layout leaves may have besides the sorted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaves {
    /// Sorted slots only.
    Comparison,
    /// Fingerprints (§3.4).
    Fingerprint,
    /// Sorted slots, or a slot for every possible key (§3.5).
    SemiDense,
    /// Sorted slots, or an array of values (§3.5).
    FullyDense,
    /// Sorted slots, fingerprints or an array of values, whichever suits a leaf's keys and what
    /// is done with them (§5).
    Adaptive,
}

impl Leaves {
    pub(crate) const fn fingerprint(self) -> bool {
        matches!(self, Self::Fingerprint | Self::Adaptive)
    }

    pub(crate) const fn semi_dense(self) -> bool {
        matches!(self, Self::SemiDense)
    }

    pub(crate) const fn fully_dense(self) -> bool {
        matches!(self, Self::FullyDense | Self::Adaptive)
    }

    pub(crate) const fn dense(self) -> bool {
        self.semi_dense() || self.fully_dense()
    }

    pub(crate) const fn adaptive(self) -> bool {
        matches!(self, Self::Adaptive)
    }
}

/// When a leaf of the adaptive tree changes its form (§5.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Heads are good if fewer than so many 64ths of the records have the head of the one before.
    pub equal_heads_64ths: usize,
    /// How probably a scan raises the counter of its leaf, of 2³².
    pub scan_counts: u32,
    /// How probably a point operation lowers it, of 2³².
    pub point_counts: u32,
    /// The highest count, at which scans are common: 3 to 127.
    pub most: usize,
}

impl Thresholds {
    /// What the paper chooses, and the database runs.
    pub const PAPER: Self = Self {
        equal_heads_64ths: 4,
        scan_counts: (0.15 * 4_294_967_296.0) as u32,
        point_counts: (0.05 * 4_294_967_296.0) as u32,
        most: 3,
    };

    /// Whether a leaf with this count has fingerprints, if its heads are bad: scans are rare.
    pub(crate) const fn is_rare(self, counter: usize) -> bool {
        counter < self.most.div_ceil(2)
    }
}

/// What semi dense leaves do that the paper names, but does not have in its trees (§4.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SemiDenseOptions {
    /// Whether a scan looks for the next value in eight slots at once: no branch for each slot.
    pub scans_by_vectors: bool,
    /// Whether a leaf may have slots for fewer keys than there are between its fences. A key past
    /// the last slot gets a leaf of its own, and nothing moves.
    pub over_commits: bool,
    /// Whether a leaf without room splits behind its last record for the sake of a key above it,
    /// and not in the middle.
    pub splits_at_end: bool,
}

impl SemiDenseOptions {
    /// What the paper has.
    pub const PAPER: Self = Self {
        scans_by_vectors: false,
        over_commits: false,
        splits_at_end: false,
    };
}

/// A set of optimisations.
pub trait Configuration: sealed::Sealed + 'static {
    /// The name in reports.
    const NAME: &'static str;
    /// Whether keys leave out what both fences begin with (§3.1).
    const PREFIX: bool;
    /// Leading bytes of a key that lie in an array of their own (§3.2): 0, 4 or 8.
    const HEAD: usize;
    /// Whether 16 evenly spaced heads are repeated at the start of a page (§3.3).
    const HINTS: bool;
    /// The layouts of leaves.
    const LEAVES: Leaves;
    /// When leaves change their layout, where they do.
    const THRESHOLDS: Thresholds = Thresholds::PAPER;
    /// What semi dense leaves do, where there are any.
    const SEMI_DENSE: SemiDenseOptions = SemiDenseOptions::PAPER;
}

macro_rules! configurations {
    ($($(#[$doc:meta])* $type:ident $name:literal
       $prefix:literal $head:literal $hints:literal $leaves:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, Copy)]
            pub enum $type {}
            impl sealed::Sealed for $type {}
            impl Configuration for $type {
                const NAME: &'static str = $name;
                const PREFIX: bool = $prefix;
                const HEAD: usize = $head;
                const HINTS: bool = $hints;
                const LEAVES: Leaves = Leaves::$leaves;
            }
        )*
    };
}

configurations! {
    /// Slotted pages with whole keys (§2).
    Baseline "baseline" false 0 false Comparison;
    /// [`Baseline`] and prefix truncation.
    Prefix "prefix" true 0 false Comparison;
    /// [`Prefix`] and heads of four bytes.
    Heads "heads" true 4 false Comparison;
    /// [`Heads`] of eight bytes, our variant.
    WideHeads "wide heads" true 8 false Comparison;
    /// [`Heads`] and hints.
    Hints "hints" true 4 true Comparison;
    /// [`WideHeads`] and hints.
    WideHints "wide hints" true 8 true Comparison;
    /// [`Hints`] in inner nodes, fingerprints in leaves.
    Fingerprint "fingerprint" true 4 true Fingerprint;
    /// [`Hints`], and leaves with a slot for every possible key where keys are dense integers.
    SemiDense "semi dense" true 4 true SemiDense;
    /// [`Hints`], and leaves that are arrays of values where keys are dense integers.
    FullyDense "fully dense" true 4 true FullyDense;
    /// Each leaf as suits it: as in [`Hints`], [`Fingerprint`] or [`FullyDense`].
    Adaptive "adaptive" true 4 true Adaptive;
}

/// [`Adaptive`] with other [`Thresholds`], to measure what they matter (§5.1): heads are good if
/// fewer than `HEADS` 64ths of them are equal, operations count with `PERCENT` of the paper's
/// probabilities, up to `MOST`.
#[derive(Debug, Clone, Copy)]
pub enum AdaptiveBy<const HEADS: usize, const PERCENT: u32, const MOST: usize> {}

impl<const HEADS: usize, const PERCENT: u32, const MOST: usize> sealed::Sealed
    for AdaptiveBy<HEADS, PERCENT, MOST>
{
}

impl<const HEADS: usize, const PERCENT: u32, const MOST: usize> Configuration
    for AdaptiveBy<HEADS, PERCENT, MOST>
{
    const NAME: &'static str = "adaptive by other thresholds";
    const PREFIX: bool = Adaptive::PREFIX;
    const HEAD: usize = Adaptive::HEAD;
    const HINTS: bool = Adaptive::HINTS;
    const LEAVES: Leaves = Adaptive::LEAVES;
    const THRESHOLDS: Thresholds = {
        assert!(HEADS > 0 && HEADS <= 64, "64ths of the records");
        assert!(
            PERCENT > 0 && PERCENT <= 500,
            "probabilities of at most 0.75"
        );
        assert!(MOST >= 3 && MOST <= 127, "a count of a signed byte");
        Thresholds {
            equal_heads_64ths: HEADS,
            scan_counts: percent(Thresholds::PAPER.scan_counts, PERCENT),
            point_counts: percent(Thresholds::PAPER.point_counts, PERCENT),
            most: MOST,
        }
    };
}

const fn percent(of: u32, percent: u32) -> u32 {
    (of as u64 * percent as u64 / 100) as u32
}

/// [`SemiDense`] with other [`SemiDenseOptions`], in their order.
#[derive(Debug, Clone, Copy)]
pub enum SemiDenseBy<const VECTORS: bool, const OVER_COMMITS: bool, const AT_END: bool> {}

impl<const VECTORS: bool, const OVER_COMMITS: bool, const AT_END: bool> sealed::Sealed
    for SemiDenseBy<VECTORS, OVER_COMMITS, AT_END>
{
}

impl<const VECTORS: bool, const OVER_COMMITS: bool, const AT_END: bool> Configuration
    for SemiDenseBy<VECTORS, OVER_COMMITS, AT_END>
{
    const NAME: &'static str = "semi dense with options";
    const PREFIX: bool = SemiDense::PREFIX;
    const HEAD: usize = SemiDense::HEAD;
    const HINTS: bool = SemiDense::HINTS;
    const LEAVES: Leaves = SemiDense::LEAVES;
    const SEMI_DENSE: SemiDenseOptions = SemiDenseOptions {
        scans_by_vectors: VECTORS,
        over_commits: OVER_COMMITS,
        splits_at_end: AT_END,
    };
}
