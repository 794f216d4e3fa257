//! Keys that look like what people name things: addresses and paths, composed from lists.
//!
//! A number is taken apart in a mixed radix, each digit of which picks a word; as every word
//! can be read back from the key, different numbers give different keys.

use super::digits::digits;
use crate::random::{Permutation, mix64};

#[rustfmt::skip]
const FIRST: [&str; 64] = [
    "ada", "agnes", "alan", "alice", "amir", "ana", "anders", "anika", "barbara", "beatriz",
    "bjarne", "bo", "carlos", "chen", "clara", "daniel", "deniz", "dmitri", "edsger", "elena",
    "emma", "erik", "fatima", "felix", "frances", "georg", "grace", "hana", "hans", "ibrahim",
    "ines", "ivan", "jack", "jean", "joao", "john", "julia", "kai", "karen", "kofi", "lars",
    "laura", "leslie", "li", "lucia", "maria", "mei", "michael", "mohammed", "nadia", "niklaus",
    "noor", "olga", "omar", "paula", "peter", "priya", "rosa", "samuel", "sofia", "thomas",
    "tony", "yuki", "zoe",
];

#[rustfmt::skip]
const LAST: [&str; 96] = [
    "abbott", "adams", "ahmed", "almeida", "andersson", "bachmann", "bailey", "banerjee",
    "bauer", "becker", "bennett", "bianchi", "brown", "campbell", "carter", "castro", "clark",
    "cohen", "cooper", "costa", "davies", "diaz", "dubois", "duarte", "eriksen", "evans",
    "fernandez", "fischer", "fontaine", "fujita", "garcia", "gomez", "gonzalez", "gray",
    "gupta", "haddad", "hansen", "hayashi", "hernandez", "hoffmann", "holm", "hughes",
    "ivanov", "jackson", "jansen", "jensen", "johnson", "jones", "kapoor", "kaya", "keller",
    "khan", "kim", "kowalski", "kumar", "larsen", "lee", "lehmann", "lopez", "martin",
    "martinez", "mehta", "miller", "moreau", "moreno", "mueller", "murphy", "nakamura",
    "nguyen", "nielsen", "novak", "nowak", "okafor", "olsen", "ortega", "patel", "pereira",
    "petrov", "popescu", "reyes", "ricci", "rossi", "sato", "schmidt", "silva", "singh",
    "smith", "suzuki", "tanaka", "taylor", "torres", "wagner", "wang", "weber", "williams",
    "yilmaz",
];

/// Domains (all reserved for examples, RFC 2606) and how many numbers each has: the share of
/// addresses at it.
const DOMAINS: [(&str, u64); 12] = [
    ("mail.example", 4000),
    ("example.com", 2400),
    ("post.example", 1200),
    ("inbox.example.org", 700),
    ("example.org", 500),
    ("example.net", 400),
    ("corp.example.com", 300),
    ("students.university.example", 200),
    ("physics.university.example", 100),
    ("research.lab.example", 100),
    ("shop.example.net", 60),
    ("city.government.example", 40),
];

const SEPARATORS: [u8; 3] = [b'.', b'_', b'-'];

const NUMBERS: u64 = {
    let mut sum = 0;
    let mut index = 0;
    while index < DOMAINS.len() {
        sum += DOMAINS[index].1;
        index += 1;
    }
    sum
};

/// How many different addresses there are.
pub(super) const EMAILS: u64 =
    FIRST.len() as u64 * LAST.len() as u64 * SEPARATORS.len() as u64 * NUMBERS;

/// Takes the lowest digit of `number` in the radix of the list's length off and picks by it.
fn pick<T: Copy>(list: &[T], number: &mut u64) -> T {
    let radix = list.len() as u64;
    let picked = list[(*number % radix) as usize];
    *number /= radix;
    picked
}

/// Appends the `number`-th address, such as `grace_kim17@post.example`; distinct below
/// [`EMAILS`].
pub(super) fn email(mut number: u64, key: &mut Vec<u8>) {
    key.extend_from_slice(pick(&FIRST, &mut number).as_bytes());
    key.push(pick(&SEPARATORS, &mut number));
    key.extend_from_slice(pick(&LAST, &mut number).as_bytes());
    let mut rest = number;
    for (domain, numbers) in DOMAINS {
        if rest < numbers {
            // 0 stands for a name that was still to be had.
            if rest > 0 {
                digits(rest, 1, key);
            }
            key.push(b'@');
            key.extend_from_slice(domain.as_bytes());
            return;
        }
        rest -= numbers;
    }
    unreachable!("the caller keeps below EMAILS");
}

const ROOTS: [&str; 8] = [
    "/home/shared/projects/",
    "/opt/",
    "/srv/www/archive/",
    "/usr/lib/x86_64-linux-gnu/",
    "/usr/lib/python3/site-packages/",
    "/usr/share/",
    "/usr/share/doc/",
    "/var/lib/builds/nightly/",
];

#[rustfmt::skip]
const WORDS: [&str; 64] = [
    "access", "agent", "atlas", "audio", "base", "binder", "bridge", "buffer", "cache",
    "calendar", "catalog", "cluster", "codec", "compiler", "config", "console", "core",
    "crypto", "data", "desktop", "device", "dialog", "document", "editor", "engine", "export",
    "filter", "font", "format", "gallery", "graph", "grid", "handler", "icon", "image",
    "index", "kernel", "language", "layout", "library", "locale", "manual", "media", "model",
    "monitor", "network", "object", "package", "parser", "plugin", "printer", "profile",
    "query", "render", "report", "schema", "search", "session", "storage", "stream", "theme",
    "transport", "widget", "window",
];

const PARTS: [&str; 8] = [
    "",
    "src/",
    "tests/data/",
    "assets/icons/48x48/",
    "locale/en_GB/",
    "include/internal/",
    "examples/",
    "docs/reference/api/",
];

const EXTENSIONS: [&str; 12] = [
    ".c", ".h", ".html", ".json", ".md", ".png", ".py", ".rs", ".so", ".svg", ".txt", ".xml",
];

/// Files in a directory.
const SIBLINGS: u64 = 12;

/// More directories than there are ever paths for: 2^40 / 12 of them can be asked for.
const DIRECTORIES: u64 = 1 << 37;

/// Appends the `place`-th path, such as `/usr/share/font-grid-17/src/parser-07.rs`; distinct
/// below 2^40. Neighbouring places share a directory.
pub(super) fn path(place: u64, seed: u64, key: &mut Vec<u8>) {
    let mut number = Permutation::new(DIRECTORIES, seed).at(place / SIBLINGS);
    key.extend_from_slice(pick(&ROOTS, &mut number).as_bytes());
    let part = pick(&PARTS, &mut number);
    key.extend_from_slice(pick(&WORDS, &mut number).as_bytes());
    key.push(b'-');
    key.extend_from_slice(pick(&WORDS, &mut number).as_bytes());
    key.push(b'-');
    digits(number, 1, key);
    key.push(b'/');
    key.extend_from_slice(part.as_bytes());
    // The name is any word; the file's place in its directory makes it unique there.
    let mut name = mix64(place ^ seed);
    key.extend_from_slice(pick(&WORDS, &mut name).as_bytes());
    key.push(b'-');
    digits(place % SIBLINGS, 2, key);
    key.extend_from_slice(pick(&EXTENSIONS, &mut name).as_bytes());
}
