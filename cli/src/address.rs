//! Addresses as people write them: `127.0.0.1:7379`, `localhost:7379`, `[::1]:7379`, `7379`,
//! `none`.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};

use serde::Deserialize;

/// An address, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// Do not listen.
    None,
    /// Listen here.
    At(SocketAddr),
}

/// Parses where to listen.
pub(crate) fn listen(text: &str) -> Result<Listen, String> {
    if text == "none" {
        return Ok(Listen::None);
    }
    match resolve(text) {
        Some(found) => found.map(Listen::At),
        None => Err(format!(
            "{text:?} is no address; write it like 127.0.0.1:7379, localhost:7379 or 7379, or none"
        )),
    }
}

/// Parses where a server is.
pub(crate) fn server(text: &str) -> Result<SocketAddr, String> {
    resolve(text).unwrap_or_else(|| {
        Err(format!(
            "{text:?} is no address; write it like 127.0.0.1:7379, localhost:7379 or 7379"
        ))
    })
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

impl<'de> Deserialize<'de> for Listen {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Listen, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum PortOrText {
            Port(u16),
            Text(String),
        }
        let text = match PortOrText::deserialize(from)? {
            PortOrText::Port(port) => port.to_string(),
            PortOrText::Text(text) => text,
        };
        listen(&text).map_err(serde::de::Error::custom)
    }
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
        assert!(server("none").is_err());
    }
}
