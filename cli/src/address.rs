//! Addresses as people write them: `127.0.0.1:7379`, `localhost:7379`, `[::1]:7379`, `7379`,
//! `unix:/run/hedgerow.sock`, `udp:127.0.0.1:7211`, `none`.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde::Deserialize;

/// An address, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// Do not listen.
    None,
    /// Listen here.
    At(SocketAddr),
    /// Listen at a Unix domain socket.
    Unix(PathBuf),
    /// Listen at UDP ports, from this one on.
    Udp(SocketAddr),
}

/// Where one protocol is served: at a port, a Unix domain socket, UDP ports, several of these, or
/// not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) port: Option<SocketAddr>,
    pub(crate) unix: Option<PathBuf>,
    pub(crate) udp: Option<SocketAddr>,
}

impl Places {
    /// What a flag was given, which may be there several times.
    pub(crate) fn of(flag: &str, given: Vec<Listen>) -> Result<Places, String> {
        let (count, mut places) = (given.len(), Places::default());
        for listen in given {
            let is_second = match listen {
                Listen::None => count > 1,
                Listen::At(address) => places.port.replace(address).is_some(),
                Listen::Unix(path) => places.unix.replace(path).is_some(),
                Listen::Udp(address) => places.udp.replace(address).is_some(),
            };
            if is_second {
                return Err(format!(
                    "{flag} takes one port and one Unix domain socket at most (--memcached also \
                     one udp: address), or none alone"
                ));
            }
        }
        Ok(places)
    }
}

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ServerAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerAddress::Tcp(address) => address.fmt(f),
            ServerAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl ServerAddress {
    /// Connects.
    pub(crate) fn connect(&self) -> io::Result<ServerStream> {
        match self {
            ServerAddress::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_nodelay(true)?;
                Ok(ServerStream::Tcp(stream))
            }
            ServerAddress::Unix(path) => Ok(ServerStream::Unix(UnixStream::connect(path)?)),
        }
    }
}

/// A connection to a server.
pub(crate) enum ServerStream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Read for ServerStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            ServerStream::Tcp(stream) => stream.read(buffer),
            ServerStream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for ServerStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            ServerStream::Tcp(stream) => stream.write(bytes),
            ServerStream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            ServerStream::Tcp(stream) => stream.flush(),
            ServerStream::Unix(stream) => stream.flush(),
        }
    }
}

/// The file of a Unix domain socket, if a text means one.
fn unix_path(text: &str) -> Option<Result<PathBuf, String>> {
    let path = text.strip_prefix("unix:")?;
    Some(match path {
        "" => Err("unix: needs the path of a socket, like unix:/run/hedgerow.sock".to_owned()),
        path => Ok(PathBuf::from(path)),
    })
}

/// Parses where to listen.
pub(crate) fn listen(text: &str) -> Result<Listen, String> {
    if text == "none" {
        return Ok(Listen::None);
    }
    if let Some(path) = unix_path(text) {
        return path.map(Listen::Unix);
    }
    let (text, place): (_, fn(SocketAddr) -> Listen) = match text.strip_prefix("udp:") {
        Some(address) => (address, Listen::Udp),
        None => (text, Listen::At),
    };
    match resolve(text) {
        Some(found) => found.map(place),
        None if text.parse::<i64>().is_ok() => Err(format!(
            "{text} is no port: ports go from 0 to 65535; write it like 7379, 127.0.0.1:7379, \
             localhost:7379 or unix:PATH, or none"
        )),
        None => Err(format!(
            "{text:?} is no address; write it like 127.0.0.1:7379, localhost:7379, 7379 or \
             unix:PATH, or none (--memcached also like udp:127.0.0.1:7211)"
        )),
    }
}

/// Parses where a server is. Of several places, as the server's own variable may name them, the
/// first.
pub(crate) fn server(text: &str) -> Result<ServerAddress, String> {
    let text = text.split(',').next().unwrap_or(text);
    if let Some(path) = unix_path(text) {
        return path.map(ServerAddress::Unix);
    }
    match resolve(text) {
        Some(found) => found.map(ServerAddress::Tcp),
        None => Err(format!(
            "{text:?} is no address; write it like 127.0.0.1:7379, localhost:7379, 7379 or \
             unix:PATH"
        )),
    }
}

/// The address that a text means; `None` if it has not the form of one.
fn resolve(text: &str) -> Option<Result<SocketAddr, String>> {
    if let Ok(port) = text.parse::<u16>() {
        return Some(Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(Ok(address));
    }
    let (host, port) = text.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    if host.is_empty() || host.contains([':', '[', ']', '/']) {
        return None;
    }
    let found = match (host, port).to_socket_addrs() {
        Ok(found) => found.collect::<Vec<_>>(),
        Err(error) => return Some(Err(format!("the host {host:?} is not known: {error}"))),
    };
    // What the default addresses are, too.
    let first = found
        .iter()
        .find(|address| address.is_ipv4())
        .or(found.first());
    Some(
        first
            .copied()
            .ok_or_else(|| format!("the host {host:?} has no address")),
    )
}

/// What a configuration file has for a protocol: one address or several.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "no place to listen: give a port from 0 to 65535, a text like \"127.0.0.1:7379\" \
                 or \"unix:PATH\", or a list of them"
)]
enum PortsOrTexts {
    One(PortOrText),
    Several(Vec<PortOrText>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum PortOrText {
    Port(i64),
    Text(String),
}

/// Reads one address or several from a configuration file.
pub(crate) fn listen_in_file<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<Listen>>, D::Error> {
    let given = match PortsOrTexts::deserialize(from)? {
        PortsOrTexts::One(one) => vec![one],
        PortsOrTexts::Several(several) => several,
    };
    let given = given.into_iter().map(|each| match each {
        PortOrText::Port(port) => listen(&port.to_string()),
        PortOrText::Text(text) => listen(&text),
    });
    let given: Result<Vec<Listen>, String> = given.collect();
    given.map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_several_forms() {
        let local = |port| Ok(Listen::At(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
        assert_eq!(listen("7379"), local(7379));
        assert_eq!(listen("127.0.0.1:0"), local(0));
        assert_eq!(listen("localhost:7379"), local(7379));
        assert_eq!(listen("none"), Ok(Listen::None));
        assert_eq!(
            listen("[::1]:7"),
            Ok(Listen::At("[::1]:7".parse().unwrap()))
        );
        for wrong in [
            "",
            "nowhere",
            "127.0.0.1",
            ":7379",
            "::1:x",
            "70000",
            "a:b:1",
            "http://a:1",
        ] {
            let error = listen(wrong).unwrap_err();
            assert!(error.contains("127.0.0.1:7379"), "{wrong}: {error}");
        }
        assert!(
            listen("localhost")
                .unwrap_err()
                .contains("--memcached also")
        );
        assert!(server("none").is_err());
        let unix = PathBuf::from("/run/a:1");
        assert_eq!(listen("unix:/run/a:1"), Ok(Listen::Unix(unix.clone())));
        assert_eq!(server("unix:/run/a:1"), Ok(ServerAddress::Unix(unix)));
        assert!(listen("unix:").unwrap_err().contains("unix:/run/"));
        assert_eq!(server("7379,unix:/p"), server("7379"));
        assert!(listen("70000").unwrap_err().contains("65535"));
        let udp = SocketAddr::from((Ipv4Addr::LOCALHOST, 7211));
        assert_eq!(listen("udp:7211"), Ok(Listen::Udp(udp)));
        assert_eq!(listen("udp:localhost:7211"), Ok(Listen::Udp(udp)));
        assert!(listen("udp:").unwrap_err().contains("udp:127.0.0.1"));
    }

    #[test]
    fn a_protocol_has_a_port_and_a_socket_at_most() {
        let places = |texts: &[&str]| {
            let given = texts.iter().map(|text| listen(text).unwrap());
            Places::of("--resp", given.collect())
        };
        let both = places(&["unix:/a", "7379", "udp:7380"]).unwrap();
        assert_eq!(both.udp.map(|port| port.port()), Some(7380));
        assert_eq!(both.unix, Some(PathBuf::from("/a")));
        assert_eq!(both.port.map(|port| port.port()), Some(7379));
        assert_eq!(places(&["none"]), Ok(Places::default()));
        assert_eq!(places(&["unix:/a"]).unwrap().port, None);
        for wrong in [
            ["1", "2"],
            ["unix:/a", "unix:/b"],
            ["none", "1"],
            ["udp:1", "udp:2"],
        ] {
            let error = places(&wrong).unwrap_err();
            assert!(error.contains("--resp") && error.contains("one"), "{error}");
        }
    }
}
