//! The table of real sets: what, where from, under which terms.

/// A set of real keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RealSet {
    /// The name in `fetched:NAME`.
    pub name: &'static str,
    /// What the keys are.
    pub what: &'static str,
    /// Where they come from.
    pub origin: &'static str,
    /// The terms that they come under, as their package states them.
    pub licence: &'static str,
    pub(super) source: Source,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// A file of a package, read by its form.
    Package {
        package: &'static str,
        file: &'static str,
        form: Form,
    },
    /// The lists of all files of all packages.
    Contents,
    /// A field of the index of packages.
    Field(&'static str),
}

/// How keys stand in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// One per line.
    Lines,
    /// Before the first tab (dictd's index).
    BeforeTab,
    /// The second field of those that semicolons divide (Unicode's character data).
    SecondOfSemicolons,
}

impl Form {
    pub(super) fn key(self, line: &[u8]) -> Option<&[u8]> {
        let key = match self {
            Self::Lines => Some(line),
            Self::BeforeTab => line.split(|byte| *byte == b'\t').next(),
            Self::SecondOfSemicolons => line.split(|byte| *byte == b';').nth(1),
        };
        // dictd's own entries, and characters that have a range for a name.
        key.filter(|key| !key.is_empty() && key[0] != b'<' && !key.starts_with(b"00-database"))
    }
}

/// Every real set.
pub const REAL_SETS: &[RealSet] = &[
    RealSet {
        name: "paths",
        what: "paths of all files of all Debian packages",
        origin: "the archive's Contents indices, as apt-file reads them",
        licence: "names of files, facts about the archive",
        source: Source::Contents,
    },
    RealSet {
        name: "words",
        what: "English words and names",
        origin: "package wamerican-insane",
        licence: "SCOWL's: use, copy and distribute with its notices",
        source: Source::Package {
            package: "wamerican-insane",
            file: "usr/share/dict/american-english-insane",
            form: Form::Lines,
        },
    },
    RealSet {
        name: "french-words",
        what: "French words in all their forms, many sharing long beginnings",
        origin: "package wfrench",
        licence: "GPL-2+",
        source: Source::Package {
            package: "wfrench",
            file: "usr/share/dict/french",
            form: Form::Lines,
        },
    },
    RealSet {
        name: "phrases",
        what: "English terms of several words",
        origin: "package miscfiles, list web2a",
        licence: "GPL-2+ as packaged; the words of a dictionary of 1934",
        source: Source::Package {
            package: "miscfiles",
            file: "usr/share/dict/web2a.gz",
            form: Form::Lines,
        },
    },
    RealSet {
        name: "headwords",
        what: "headwords of a dictionary",
        origin: "package dict-gcide",
        licence: "GPL-3+",
        source: Source::Package {
            package: "dict-gcide",
            file: "usr/share/dictd/gcide.index",
            form: Form::BeforeTab,
        },
    },
    RealSet {
        name: "titles",
        what: "names of characters, in words, like titles",
        origin: "package unicode-data, file UnicodeData.txt",
        licence: "Unicode's: use, copy and distribute with its notice",
        source: Source::Package {
            package: "unicode-data",
            file: "usr/share/unicode/UnicodeData.txt",
            form: Form::SecondOfSemicolons,
        },
    },
    RealSet {
        name: "urls",
        what: "home pages of Debian's packages",
        origin: "the archive's package indices, field Homepage",
        licence: "facts about the packages",
        source: Source::Field("Homepage"),
    },
    RealSet {
        name: "summaries",
        what: "one-line descriptions of Debian's packages",
        origin: "the archive's package indices, field Description",
        licence: "each its package's own, all free",
        source: Source::Field("Description"),
    },
];
