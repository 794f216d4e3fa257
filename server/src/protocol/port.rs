//! What is spoken on a port.

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Resp,
    Memcached,
    Http,
}

impl std::fmt::Display for Speaks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Speaks::Resp => "resp",
            Speaks::Memcached => "memcached",
            Speaks::Http => "http",
        })
    }
}
