//! Small samples of real keys that are part of the program, so that tests and first tries need
//! no network. `lab/data/samples/README.md` says where they come from and under which terms.

/// A sample of real keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sample {
    /// Paths of files of Debian packages.
    Paths,
    /// English words and names.
    Words,
    /// Names of characters, in words, like titles.
    Titles,
}

impl Sample {
    /// Every sample.
    pub const ALL: [Self; 3] = [Self::Paths, Self::Words, Self::Titles];

    /// The name in `sample:NAME`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Paths => "paths",
            Self::Words => "words",
            Self::Titles => "titles",
        }
    }

    /// The keys, one per line, sorted.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Paths => include_str!("../../samples/paths.txt"),
            Self::Words => include_str!("../../samples/words.txt"),
            Self::Titles => include_str!("../../samples/titles.txt"),
        }
    }
}
