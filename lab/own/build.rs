//! Notes the compiler's version: it is the version of the standard library's `BTreeMap`.

use std::process::Command;

fn main() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    let version = output
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .and_then(|text| text.split_whitespace().nth(1).map(str::to_owned))
        .unwrap_or_default();
    println!("cargo::rustc-env=HEDGEROW_LAB_RUSTC={version}");
    println!("cargo::rerun-if-changed=build.rs");
}
