//! Real keys, obtained from Debian by its ordinary package clients.
//!
//! A [`RealSet`] comes out of a package, or out of the indices that every Debian archive
//! publishes. They are read from wherever this machine's own apt is set up to read from;
//! nothing is installed, and nothing outside one cache folder is written: apt keeps its lists
//! there, and packages are unpacked beside them. Each set ends as a text of sorted lines that
//! the key set `fetched:NAME` reads.

mod apt;
mod error;
mod sets;

use std::ffi::OsString;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::Keys;
use apt::Apt;
use error::at;
use sets::Source;

pub use error::FetchError;
pub use sets::{REAL_SETS, RealSet};

/// A set that is there now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetched {
    /// The text, one key a line, sorted.
    pub path: PathBuf,
    /// How many keys.
    pub keys: u64,
    /// Their lengths together.
    pub bytes: u64,
    /// The versions of what they came from, where these have one.
    pub version: Option<String>,
}

/// The folder that real sets are kept in: `$HEDGEROW_LAB_CACHE`, or `hedgerow-lab` in the
/// user's cache folder.
///
/// # Errors
///
/// When the environment names neither.
pub fn cache_folder() -> Result<PathBuf, FetchError> {
    let set = |name| std::env::var_os(name).filter(|value: &OsString| !value.is_empty());
    if let Some(folder) = set("HEDGEROW_LAB_CACHE") {
        return Ok(folder.into());
    }
    let caches = set("XDG_CACHE_HOME").map(PathBuf::from);
    let caches = caches.or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")));
    caches
        .map(|folder| folder.join("hedgerow-lab"))
        .ok_or(FetchError::NoCache)
}

impl RealSet {
    /// The set of this name.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub fn named(name: &str) -> Result<&'static Self, FetchError> {
        let set = REAL_SETS.iter().find(|set| set.name == name);
        set.ok_or_else(|| FetchError::UnknownName(name.to_owned()))
    }

    /// Where the set lies once it has been fetched into a cache folder.
    #[must_use]
    pub fn path_in(&self, cache: &Path) -> PathBuf {
        cache.join("sets").join(format!("{}.txt", self.name))
    }

    /// Obtains the set, anew if it is there already, and tells each step to `say`. All keys are
    /// in memory at once: twice their size (the paths: about 1.2 GB).
    ///
    /// # Errors
    ///
    /// When a package client fails or is missing, or the cache folder cannot be written.
    pub fn fetch(&self, cache: &Path, say: &mut dyn FnMut(&str)) -> Result<Fetched, FetchError> {
        let apt = Apt::new(cache)?;
        let mut keys = Keys::new();
        let mut version = None;
        match self.source {
            Source::Package {
                package,
                file,
                form,
            } => {
                say("reading the lists of packages");
                apt.update(None)?;
                say(&format!("downloading and unpacking {package}"));
                let (folder, found) = apt.unpack(package)?;
                version = found;
                apt.read(&folder.join(file), |line| {
                    if let Some(key) = form.key(line) {
                        keys.push(key);
                    }
                })?;
            }
            Source::Contents => {
                say("reading the lists of packages");
                apt.update(None)?;
                say("downloading apt-file's settings");
                let settings = apt
                    .unpack("apt-file")?
                    .0
                    .join("etc/apt/apt.conf.d/50apt-file.conf");
                say("downloading the lists of files (about 60 MB)");
                apt.update(Some(&settings))?;
                let indices = apt.indices("Contents-deb", Some(&settings))?;
                for (number, index) in indices.iter().enumerate() {
                    say(&format!("reading list {} of {}", number + 1, indices.len()));
                    apt.read(index, |line| contents_path(line, &mut keys))?;
                }
            }
            Source::Field(field) => {
                say("reading the lists of packages");
                apt.update(None)?;
                let beginning = format!("{field}: ");
                for index in apt.indices("Packages", None)? {
                    apt.read(&index, |line| {
                        if let Some(value) = line.strip_prefix(beginning.as_bytes()) {
                            keys.push(value.trim_ascii());
                        }
                    })?;
                }
            }
        }
        if keys.is_empty() {
            return Err(FetchError::Nothing(self.origin.to_owned()));
        }
        say("sorting");
        let path = self.path_in(cache);
        let (keys, bytes) = write_sorted(&keys, &path)?;
        Ok(Fetched {
            path,
            keys,
            bytes,
            version,
        })
    }
}

/// Appends the path of a line of a Contents index: all before the last white space, behind
/// which the packages stand.
fn contents_path(line: &[u8], keys: &mut Keys) {
    let line = line.trim_ascii_end();
    if let Some(end) = line.iter().rposition(u8::is_ascii_whitespace) {
        let path = line[..end].trim_ascii_end();
        if !path.is_empty() {
            keys.push(&[b"/", path].concat());
        }
    }
}

/// Writes the distinct keys in order, whole or not at all; how many, and of how many bytes.
fn write_sorted(keys: &Keys, path: &Path) -> Result<(u64, u64), FetchError> {
    let sorted = keys.sorted();
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(at(folder))?;
    let unfinished = path.with_extension("unfinished");
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(fs::File::create(&unfinished)?);
        for key in sorted.iter() {
            file.write_all(key)?;
            file.write_all(b"\n")?;
        }
        file.into_inner()?.sync_all()?;
        fs::rename(&unfinished, path)
    };
    write().map_err(at(path))?;
    Ok((sorted.len() as u64, sorted.total_bytes() as u64))
}

#[cfg(test)]
mod tests {
    use super::sets::Form;
    use super::*;

    #[test]
    fn keys_are_found_in_each_form() {
        let paths = |line: &str| {
            let mut keys = Keys::new();
            contents_path(line.as_bytes(), &mut keys);
            keys.iter()
                .map(|key| String::from_utf8_lossy(key).into_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(paths("bin/a  \t utils/a,net/b"), ["/bin/a"]);
        assert_eq!(
            paths("usr/with two  spaces/x   misc/y"),
            ["/usr/with two  spaces/x"]
        );
        assert!(paths("alone").is_empty() && paths("").is_empty() && paths("   x/y").is_empty());
        assert_eq!(Form::Lines.key(b"a b"), Some(&b"a b"[..]));
        assert_eq!(Form::BeforeTab.key(b"a b\tX\tY"), Some(&b"a b"[..]));
        assert_eq!(Form::BeforeTab.key(b"00-database-info\tX"), None);
        assert_eq!(
            Form::SecondOfSemicolons.key(b"0041;LATIN CAPITAL LETTER A;Lu"),
            Some(&b"LATIN CAPITAL LETTER A"[..])
        );
        assert_eq!(Form::SecondOfSemicolons.key(b"0000;<control>;Cc"), None);
        assert_eq!(Form::SecondOfSemicolons.key(b""), None);
    }

    #[test]
    fn sets_are_written_sorted_and_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let set = RealSet::named("words").expect("a set");
        let path = set.path_in(folder.path());
        let keys: Keys = ["b", "a", "b"].iter().collect();
        assert_eq!(write_sorted(&keys, &path).expect("written"), (2, 2));
        assert_eq!(fs::read(&path).expect("read"), b"a\nb\n");
        assert_eq!(
            fs::read_dir(path.parent().expect("a folder"))
                .expect("listed")
                .count(),
            1
        );
    }

    #[test]
    fn names_are_distinct_and_wrong_ones_are_answered_with_them() {
        for set in REAL_SETS {
            assert_eq!(RealSet::named(set.name).expect("by its name"), set);
        }
        let error = RealSet::named("tweets").expect_err("none").to_string();
        assert!(
            error.starts_with("no real set is called 'tweets'; there are paths, words"),
            "{error}"
        );
    }
}
