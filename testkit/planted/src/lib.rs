//! Bugs on purpose. A checker that cannot turn red proves nothing, so crates name bugs that
//! systems like them have really had, and tests select one after the other and show that some
//! checker finds it.
//!
//! A crate declares its bugs with [`bugs!`] and asks `planted(PlantedBug::…)` where the bug would
//! be. Its cargo feature `planted-bugs`, which no build that ships enables, adds `plant` to select
//! one; without the feature `planted` is a constant `false` and the branches are gone.
//!
//! The list for all crates, with what finds each bug, is in `docs/testing.md`.

#![forbid(unsafe_code)]

/// Declares a crate's `PlantedBug`, its list `ALL`, `plant` (which selects a bug for the whole
/// process) and `planted` (which asks for one). The crate has a feature `planted-bugs`.
#[macro_export]
macro_rules! bugs {
    ($($(#[$about:meta])+ $bug:ident,)+) => {
        /// A bug to have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum PlantedBug {
            $($(#[$about])+ $bug,)+
        }

        #[cfg(feature = "planted-bugs")]
        impl PlantedBug {
            /// All of them.
            pub const ALL: &[PlantedBug] = &[$(PlantedBug::$bug,)+];
        }

        /// The selected bug's number, or that of none.
        #[cfg(feature = "planted-bugs")]
        static SELECTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(u8::MAX);

        /// Selects the bug that everything in this process has from now on, or none.
        #[cfg(feature = "planted-bugs")]
        pub fn plant(bug: Option<PlantedBug>) {
            SELECTED.store(
                bug.map_or(u8::MAX, |bug| bug as u8),
                std::sync::atomic::Ordering::SeqCst,
            );
        }

        /// Whether this bug is selected.
        #[cfg(feature = "planted-bugs")]
        #[inline]
        pub(crate) fn planted(bug: PlantedBug) -> bool {
            SELECTED.load(std::sync::atomic::Ordering::Relaxed) == bug as u8
        }

        /// Never, in builds without planted bugs.
        #[cfg(not(feature = "planted-bugs"))]
        #[inline(always)]
        pub(crate) const fn planted(_: PlantedBug) -> bool {
            false
        }
    };
}
