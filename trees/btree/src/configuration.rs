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
}
