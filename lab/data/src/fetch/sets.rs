//! The table of real sets: what, where from, under which terms.

use super::{Form, RealSet, Source};

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
        what: "French words in all their forms, many sharing long stems",
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
