//! Which protocol a port speaks.

/// What is spoken on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PortProtocol {
    Resp,
    Memcached,
    Http,
}

impl std::fmt::Display for PortProtocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PortProtocol::Resp => "resp",
            PortProtocol::Memcached => "memcached",
            PortProtocol::Http => "http",
        })
    }
}
