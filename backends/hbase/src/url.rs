//! Where a cluster is: `hbase://HOST:PORT[,HOST:PORT…]/NAMESPACE`.
//!
//! The hosts are those of HBase's Thrift2 gateways, not of ZooKeeper or of region servers. Any of
//! them serves any row; several are for failover and for spreading the load. The namespace is the
//! one that holds the database's tables.

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::table_name::fault_of_namespace;

const SCHEME: &str = "hbase://";

/// The address of one gateway.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GatewayAddress {
    host: String,
    port: u16,
}

impl GatewayAddress {
    /// The name or address of the host, in small letters; an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The TCP port, never 0.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for GatewayAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// A cluster's gateways, at least one and each once, and the namespace to use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusterUrl {
    gateways: Vec<GatewayAddress>,
    namespace: String,
}

impl ClusterUrl {
    /// The gateways, in the order of the URL.
    pub fn gateways(&self) -> &[GatewayAddress] {
        &self.gateways
    }

    /// The namespace that holds the tables.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }
}

/// As it is parsed.
impl fmt::Display for ClusterUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        for (nth, gateway) in self.gateways.iter().enumerate() {
            let comma = if nth == 0 { "" } else { "," };
            write!(f, "{comma}{gateway}")?;
        }
        write!(f, "/{}", self.namespace)
    }
}

impl FromStr for ClusterUrl {
    type Err = Error;

    /// Parses `hbase://HOST:PORT[,HOST:PORT…]/NAMESPACE`; an IPv6 address stands in brackets.
    ///
    /// # Errors
    ///
    /// [`Error::BadUrl`], which names what is wrong and shows a right example.
    fn from_str(url: &str) -> Result<ClusterUrl> {
        parse(url).map_err(|why| Error::BadUrl {
            url: url.to_owned(),
            why,
        })
    }
}

fn parse(url: &str) -> std::result::Result<ClusterUrl, String> {
    let Some(rest) = url.strip_prefix(SCHEME) else {
        return Err(format!("it does not begin with {SCHEME}"));
    };
    if let Some(sign) = rest.chars().find(|c| "@?#".contains(*c)) {
        return Err(format!(
            "it has {sign:?}, but users, options and fragments have no meaning here"
        ));
    }
    let Some((addresses, namespace)) = rest.split_once('/') else {
        return Err("no /NAMESPACE stands behind the gateways".to_owned());
    };
    if let Some(why) = fault_of_namespace(namespace) {
        return Err(why.to_owned());
    }
    let mut gateways = Vec::new();
    for address in addresses.split(',') {
        let gateway = parse_address(address)?;
        if gateways.contains(&gateway) {
            return Err(format!("the gateway {gateway} stands in it twice"));
        }
        gateways.push(gateway);
    }
    Ok(ClusterUrl {
        gateways,
        namespace: namespace.to_owned(),
    })
}

/// One `HOST:PORT`.
fn parse_address(address: &str) -> std::result::Result<GatewayAddress, String> {
    if address.is_empty() {
        return Err("a gateway's address is missing".to_owned());
    }
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let Some((host, port)) = rest.split_once(']') else {
                return Err(format!("the bracket of {address:?} is not closed"));
            };
            let Ok(parsed) = host.parse::<Ipv6Addr>() else {
                return Err(format!("{host:?} is no IPv6 address"));
            };
            (parsed.to_string(), port.strip_prefix(':'))
        }
        None => match address.rsplit_once(':') {
            Some((host, _)) if host.contains(':') => {
                return Err(format!("the IPv6 address in {address:?} needs brackets"));
            }
            Some((host, port)) => (host.to_ascii_lowercase(), Some(port)),
            None => (address.to_ascii_lowercase(), None),
        },
    };
    let Some(port) = port else {
        return Err(format!(
            "{address:?} has no port; gateways listen on 9090 unless told otherwise"
        ));
    };
    let is_legal = |c: u8| c.is_ascii_alphanumeric() || b"-._:".contains(&c);
    if host.is_empty() || !host.bytes().all(is_legal) {
        return Err(format!("{host:?} is no name of a host"));
    }
    let is_number = !port.is_empty() && port.bytes().all(|c| c.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(port @ 1..) if is_number => Ok(GatewayAddress { host, port }),
        _ => Err(format!("{port:?} is no port from 1 to 65535")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> ClusterUrl {
        url.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn one_gateway() {
        let url = parsed("hbase://localhost:9090/hedgerow");
        assert_eq!(url.namespace(), "hedgerow");
        let [gateway] = url.gateways() else {
            panic!("one gateway: {url:?}");
        };
        assert_eq!((gateway.host(), gateway.port()), ("localhost", 9090));
    }

    #[test]
    fn what_is_shown_is_what_is_parsed() {
        for url in [
            "hbase://a:1/b",
            "hbase://gateway-1.example.org:9090,gateway_2:65535/a_1",
            "hbase://127.0.0.1:9090,[::1]:9090,[2001:db8::2]:9091/default",
        ] {
            assert_eq!(parsed(url).to_string(), url);
        }
        let url = parsed("hbase://Gateway:09090,[2001:DB8:0::2]:1/Rows");
        assert_eq!(
            url.to_string(),
            "hbase://gateway:9090,[2001:db8::2]:1/Rows",
            "hosts have one spelling, namespaces two cases"
        );
        assert_eq!(url.gateways()[1].host(), "2001:db8::2");
    }

    #[test]
    fn an_error_says_what_is_wrong_and_shows_what_is_right() {
        for (url, why) in [
            ("", "does not begin with hbase://"),
            ("localhost:9090/a", "does not begin with hbase://"),
            ("HBASE://localhost:9090/a", "does not begin with hbase://"),
            ("hbase://", "no /NAMESPACE"),
            ("hbase://localhost:9090", "no /NAMESPACE"),
            ("hbase://localhost:9090/", "the namespace is missing"),
            ("hbase://localhost:9090/a/", "only letters"),
            ("hbase://localhost:9090/hbase", "HBase's own"),
            ("hbase://localhost:9090/ä", "only letters"),
            ("hbase:///a", "address is missing"),
            ("hbase://a:1,/a", "address is missing"),
            ("hbase://a:1,,b:2/a", "address is missing"),
            ("hbase://localhost/a", "has no port"),
            ("hbase://[::1]/a", "has no port"),
            ("hbase://localhost:/a", "no port from 1"),
            ("hbase://localhost:0/a", "no port from 1"),
            ("hbase://localhost:65536/a", "no port from 1"),
            ("hbase://localhost:+1/a", "no port from 1"),
            ("hbase://localhost:99999999999999999999/a", "no port from 1"),
            ("hbase://:9090/a", "no name of a host"),
            ("hbase://a b:9090/a", "no name of a host"),
            ("hbase://ä:9090/a", "no name of a host"),
            ("hbase://::1:9090/a", "needs brackets"),
            ("hbase://[::1:9090/a", "is not closed"),
            ("hbase://[a]:9090/a", "no IPv6 address"),
            ("hbase://[fe80::1%eth0]:9090/a", "no IPv6 address"),
            ("hbase://user@a:1/a", "have no meaning"),
            ("hbase://a:1/a?b=c", "have no meaning"),
            ("hbase://a:1/a#b", "have no meaning"),
            ("hbase://a:1,A:1/a", "twice"),
        ] {
            let error = url.parse::<ClusterUrl>().expect_err(url).to_string();
            assert!(error.contains(why), "{url}: {error}");
            let example = "hbase://gateway1:9090,gateway2:9090/hedgerow";
            assert!(error.contains(example), "{url}: {error}");
        }
    }
}
