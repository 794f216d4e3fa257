//! `hedgerow-lab list`: who can be measured, and what.

use std::fmt::Write as _;

use hedgerow_lab_contender::{Entry, Promises, Unavailable};

use crate::experiments;
use crate::registry::Registry;
use crate::servers;

/// The list as text: contenders with version, promises and origin; experiments with what
/// their source claims.
#[must_use]
pub fn text() -> String {
    let registry = Registry::new();
    let mut text = String::from("maps in memory\n");
    for map in &registry.maps {
        contender(&mut text, &map.entry, map.build.as_ref().err());
    }
    text.push_str("\nsets in memory\n");
    for set in &registry.sets {
        contender(&mut text, &set.entry, set.build.as_ref().err());
    }
    text.push_str("\ndurable engines\n");
    for store in &registry.stores {
        contender(&mut text, &store.entry, store.open.as_ref().err());
    }
    text.push_str("\nservers\n");
    for server in servers::all() {
        let missing = servers::participant(&server).available.err();
        contender(&mut text, &server.entry, missing.as_ref());
    }
    text.push_str("\nexperiments\n");
    for experiment in experiments::all() {
        let about = experiment.about();
        let _ = writeln!(
            text,
            "  {:<22} {} ({})\n  {:<22} claim: {}",
            about.name, about.title, about.source, "", about.claim
        );
    }
    text
}

fn contender(text: &mut String, entry: &Entry, missing: Option<&Unavailable>) {
    let _ = writeln!(
        text,
        "  {:<26} {:<10} {} · {}",
        entry.name,
        entry.version,
        entry.origin,
        promises(&entry.promises)
    );
    if let Some(missing) = missing {
        let _ = writeln!(text, "  {:<26} not here: {missing}", "");
    }
}

fn promises(promises: &Promises) -> String {
    let mut words = Vec::new();
    if promises.keys_only {
        words.push("a set".to_owned());
    }
    words.push(
        if promises.ordered {
            "ordered"
        } else {
            "unordered"
        }
        .to_owned(),
    );
    words.push(
        if promises.concurrent {
            "concurrent"
        } else {
            "one thread"
        }
        .to_owned(),
    );
    if promises.durable {
        words.push("durable".to_owned());
    }
    match (promises.variable_keys, promises.longest_key) {
        (true, Some(longest)) => words.push(format!("keys up to {longest} bytes")),
        (true, None) => words.push("keys of any length".to_owned()),
        (false, only) => words.push(format!("{}-byte keys", only.unwrap_or(8))),
    }
    words.join(", ")
}
