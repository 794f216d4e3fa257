//! What a server tells of itself, taken apart: `INFO`, memcached's `stats`, and `/metrics`, in
//! which all that Prometheus would refuse fails the test.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use hedgerow_server::ServerOptions;

use super::{Client, Started, Value, one_worker};

pub fn options() -> ServerOptions {
    let any: Option<SocketAddr> = Some("127.0.0.1:0".parse().unwrap());
    ServerOptions {
        http: any,
        memcached: any,
        ..one_worker()
    }
}

pub fn metrics(started: &Started) -> String {
    page(started.server.addresses().http.unwrap())
}

/// What a server answers at `/metrics`.
pub fn page(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
    body.to_owned()
}

pub fn info(client: &mut Client, sections: &str) -> String {
    match client.run(&format!("INFO {sections}")) {
        Value::Bulk(text) => String::from_utf8(text).unwrap(),
        other => panic!("INFO is text, not {other:?}"),
    }
}

pub fn field<'t>(info: &'t str, name: &str) -> Option<&'t str> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
}

#[track_caller]
pub fn number(info: &str, name: &str) -> f64 {
    let field = field(info, name).unwrap_or_else(|| panic!("no {name} in {info}"));
    field.parse().unwrap_or_else(|_| panic!("{name}:{field}"))
}

/// `stats [group]` as a map.
pub fn stats(started: &Started, group: &str) -> BTreeMap<String, String> {
    let address = started.server.addresses().memcached.unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("{}\r\nquit\r\n", format!("stats {group}").trim_end());
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let body = text.strip_suffix("END\r\n").expect("ends with END");
    let mut all = BTreeMap::new();
    for line in body.lines() {
        let rest = line.strip_prefix("STAT ").expect("STAT name value");
        let (name, value) = rest.split_once(' ').expect("STAT name value");
        let known = all.insert(name.to_owned(), value.to_owned());
        assert_eq!(known, None, "{name} twice");
    }
    all
}

/// A family of samples in Prometheus' text format.
#[derive(Default)]
pub struct Family {
    kind: String,
    /// With their labels as they stand.
    pub samples: BTreeMap<(String, String), f64>,
}

fn is_name(name: &str) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    name.starts_with(first) && name.chars().all(|c| first(c) || c.is_ascii_digit())
}

/// Parses `name="value",…`, as strictly as the format is.
fn check_labels(labels: &str) {
    let mut rest = labels;
    let mut names = BTreeSet::new();
    while !rest.is_empty() {
        let (name, behind) = rest.split_once("=\"").expect("name=\"");
        assert!(is_name(name) && !name.contains(':'), "label {name}");
        assert!(names.insert(name), "label {name} twice");
        let mut escaped = false;
        let end = behind.find(|c| {
            let ends = c == '"' && !escaped;
            assert!(!escaped || matches!(c, '\\' | '"' | 'n'), "escape {c}");
            escaped = c == '\\' && !escaped;
            ends
        });
        rest = &behind[end.expect("a closing quote") + 1..];
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
}

/// Parses Prometheus' text format, version 0.0.4, and refuses what its rules refuse: each family
/// has one `HELP` and one `TYPE` before its samples, which stand together, no sample twice,
/// counters end in `_total`, histograms are cumulative and whole.
pub fn parse(text: &str) -> BTreeMap<String, Family> {
    assert!(text.ends_with('\n'));
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let mut helped = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("HELP name text");
            assert!(is_name(name) && !help.is_empty(), "{line}");
            assert!(!families.contains_key(name), "{name} comes twice");
            helped = name.to_owned();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("TYPE name kind");
            assert_eq!(name, helped, "TYPE follows HELP");
            assert!(matches!(kind, "counter" | "gauge" | "histogram"), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            let family = Family {
                kind: kind.to_owned(),
                ..Family::default()
            };
            assert!(families.insert(name.to_owned(), family).is_none(), "{line}");
            current = name.to_owned();
        } else {
            let (series, value) = line.rsplit_once(' ').expect("series value");
            let value: f64 = value.parse().unwrap_or_else(|_| panic!("value of {line}"));
            let (name, labels) = match series.split_once('{') {
                Some((name, labels)) => (name, labels.strip_suffix('}').expect("}")),
                None => (series, ""),
            };
            assert!(is_name(name), "{line}");
            check_labels(labels);
            let family = families.get_mut(&current).expect("a family before samples");
            let suffix = name.strip_prefix(current.as_str()).expect("of this family");
            let suffixes: &[&str] = match family.kind.as_str() {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(suffixes.contains(&suffix), "{line} in {current}");
            assert!(family.kind == "gauge" || value >= 0.0, "{line}");
            let key = (name.to_owned(), labels.to_owned());
            assert!(family.samples.insert(key, value).is_none(), "{line} twice");
        }
    }
    families
}

/// The value of a metric without labels.
pub fn counter(started: &Started, name: &str) -> u64 {
    let http = started.server.addresses().http.unwrap();
    let mut stream = TcpStream::connect(http).unwrap();
    let head = b"GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    stream.write_all(head).unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let found = page.lines().find_map(|line| line.strip_prefix(name));
    found.expect("it is shown").trim().parse().unwrap()
}
