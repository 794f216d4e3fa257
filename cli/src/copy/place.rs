//! Where rows are: a directory, or what a URL names.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hedgerow::backend::Backend;
use hedgerow::{Db, MOST_VALUE_BYTES};

use crate::data::{discard, missing_dirs};
use crate::error::{Error, Result};

/// What a place is opened for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// A directory, or a URL.
pub(super) enum Place {
    Directory(PathBuf),
    Url(String),
}

/// What is done with a place that is open, whatever backend it is.
pub(super) trait Use {
    fn with<B: Backend>(self, db: &B) -> Result<()>;
}

impl Place {
    /// What contains `://` is a URL.
    pub(super) fn of(text: &str) -> Place {
        match text.contains("://") {
            true => Place::Url(text.to_owned()),
            false => Place::Directory(text.into()),
        }
    }

    /// Opens it, uses it, and closes it.
    pub(super) fn open(self, access: Access, user: impl Use) -> Result<()> {
        match self {
            Place::Directory(dir) => {
                // The source may have been served with any limit.
                let mut builder = Db::builder().max_value_bytes(MOST_VALUE_BYTES);
                if access == Access::Read {
                    builder = builder.read_only(true).create(false);
                }
                let missing = missing_dirs(&dir);
                let db = builder.open(&dir).map_err(|error| match error {
                    // The engine's words name a flag that `copy` does not have.
                    hedgerow::Error::Missing { dir } => Error::Failed(format!(
                        "there is no database in {}; name the directory of one",
                        dir.display()
                    )),
                    error => error.into(),
                })?;
                match user.with(&db) {
                    Ok(()) => Ok(db.close()?),
                    // The copy is made.
                    Err(error) if error.is_broken_pipe() => Err(error),
                    Err(error) => {
                        discard(&db, &missing);
                        Err(error)
                    }
                }
            }
            Place::Url(url) => open_url(&url, access, user),
        }
    }
}

/// Whether two texts name one place, as far as that can be seen: a directory, by whatever paths, or
/// a namespace behind gateways of which both name one. Gateways of one cluster that have no address
/// in common look like two clusters.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    match (Place::of(one), Place::of(other)) {
        _ if one == other => true,
        (Place::Directory(one), Place::Directory(other)) => {
            identity(&one).is_some_and(|place| Some(place) == identity(&other))
        }
        (Place::Url(one), Place::Url(other)) => is_same_namespace(&one, &other),
        _ => false,
    }
}

/// What a directory has alone, whatever links lead to it: its device and its number there.
fn identity(dir: &Path) -> Option<(u64, u64)> {
    let found = std::fs::metadata(dir).ok()?;
    Some((found.dev(), found.ino()))
}

/// Whether a place is a directory that is, or would be made, within another one.
pub(super) fn is_within(place: &str, other: &str) -> bool {
    let (Place::Directory(dir), Place::Directory(other)) = (Place::of(place), Place::of(other))
    else {
        return false;
    };
    let Some(outer) = identity(&other) else {
        return false;
    };
    let whole = std::path::absolute(&dir).unwrap_or(dir);
    let there = whole.ancestors().find_map(|dir| dir.canonicalize().ok());
    there.is_some_and(|there| there.ancestors().any(|dir| identity(dir) == Some(outer)))
}

#[cfg(feature = "hbase")]
fn is_same_namespace(one: &str, other: &str) -> bool {
    use std::collections::BTreeSet;
    use std::net::{SocketAddr, ToSocketAddrs};

    use hedgerow_hbase::ClusterUrl;

    let (Ok(one), Ok(other)) = (one.parse::<ClusterUrl>(), other.parse::<ClusterUrl>()) else {
        // Opening says what is wrong with it.
        return false;
    };
    let addresses = |url: &ClusterUrl| -> BTreeSet<SocketAddr> {
        let gateways = url.gateways().iter();
        let found = gateways.map(|gateway| (gateway.host(), gateway.port()).to_socket_addrs());
        found.flatten().flatten().collect()
    };
    let shares_a_name = || {
        let mut gateways = one.gateways().iter();
        gateways.any(|gateway| other.gateways().contains(gateway))
    };
    one.namespace() == other.namespace()
        && (shares_a_name() || !addresses(&one).is_disjoint(&addresses(&other)))
}

#[cfg(not(feature = "hbase"))]
fn is_same_namespace(_: &str, _: &str) -> bool {
    // Neither can be opened.
    false
}

#[cfg(feature = "hbase")]
fn open_url(url: &str, access: Access, user: impl Use) -> Result<()> {
    let parsed = url.parse::<hedgerow_hbase::ClusterUrl>();
    let parsed = parsed.map_err(|error| Error::Usage(error.to_string()))?;
    let options = hedgerow_hbase::HbaseOptions {
        create: access == Access::Write,
        ..hedgerow_hbase::HbaseOptions::default()
    };
    user.with(&hedgerow_hbase::Hbase::open(&parsed, options)?)
}

#[cfg(not(feature = "hbase"))]
fn open_url(url: &str, _: Access, _: impl Use) -> Result<()> {
    Err(Error::Usage(format!(
        "{url}: this program was built without other backends; build it with \
         `cargo build --release -p hedgerow-cli --features hbase`"
    )))
}

#[cfg(feature = "hbase")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_the_same_by_every_spelling_of_a_gateway() {
        let url = |gateways: &str, namespace: &str| format!("hbase://{gateways}/{namespace}");
        let here = url("127.0.0.1:9090", "a");
        for same in ["127.0.0.1:9090", "localhost:9090", "LOCALHOST:9090"] {
            assert!(is_same(&url(same, "a"), &here), "{same}");
            assert!(!is_same(&url(same, "b"), &here), "{same}");
        }
        assert!(is_same(&url("127.0.0.2:1,localhost:9090", "a"), &here));
        assert!(!is_same(&url("127.0.0.1:9091", "a"), &here));
        assert!(!is_same(&url("127.0.0.1:9090", "a"), "127.0.0.1:9090"));
        // Names that nobody knows are compared as names.
        let unknown = url("other.invalid:1,gateway.invalid:1", "a");
        assert!(is_same(&unknown, &url("GATEWAY.invalid:1", "a")));
    }
}
