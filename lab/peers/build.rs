//! Tells the registry the versions that it lists: what `Cargo.lock` pins, typed by nobody.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

fn main() {
    let lock = Path::new("../../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    println!("cargo::rerun-if-changed=build.rs");
    let text = fs::read_to_string(lock).expect("the workspace has a Cargo.lock");
    let lines: String = pinned(&text)
        .iter()
        .map(|(name, version)| format!("    (\"{name}\", \"{version}\"),\n"))
        .collect();
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let code = format!("&[\n{lines}]\n");
    fs::write(Path::new(&out).join("versions.rs"), code).expect("OUT_DIR takes files");
}

/// The versions of this package's dependencies by name.
fn pinned(lock: &str) -> BTreeMap<String, String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut ours: Vec<&str> = Vec::new();
    for package in lock.split("[[package]]") {
        let field = |name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(name))?;
            line.strip_prefix(" = \"")?.strip_suffix('"')
        };
        let (Some(name), Some(version)) = (field("name"), field("version")) else {
            continue;
        };
        versions.entry(name).or_default().push(version);
        if name == env!("CARGO_PKG_NAME") {
            let quoted = package.lines().map(str::trim);
            ours = quoted
                .filter_map(|line| line.strip_prefix('"')?.strip_suffix("\","))
                .collect();
        }
    }
    // A dependency is listed as `name`, or as `name version` where the lock holds several.
    let pin = |listed: &&str| match listed.split_once(' ') {
        Some((name, version)) => Some((name.to_owned(), version.to_owned())),
        None => Some((
            listed.to_string(),
            versions.get(*listed)?.first()?.to_string(),
        )),
    };
    ours.iter().filter_map(pin).collect()
}
