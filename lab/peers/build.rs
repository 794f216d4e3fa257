//! Tells the registry the versions that it lists (what `Cargo.lock` pins, typed by nobody), and
//! with the feature `native` compiles the shims whose libraries this machine has.

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
    println!(
        "cargo::rustc-check-cfg=cfg(peer, values(\"std\", \"absl\", \"judy\", \"cds\", \
         \"rocksdb\"))"
    );
    #[cfg(feature = "native")]
    native::build();
}

/// The shims in C++.
#[cfg(feature = "native")]
mod native {
    use std::env;
    use std::path::Path;
    use std::process::Command;

    /// A shim's name, its source, a header and the libraries that it needs.
    const SHIMS: &[(&str, &str, &str, &[&str])] = &[
        ("std", "native/std_map.cpp", "c++", &[]),
        (
            "absl",
            "native/absl.cpp",
            "absl/container/btree_map.h",
            &["absl_throw_delegate", "absl_raw_logging_internal"],
        ),
        ("judy", "native/judy.cpp", "Judy.h", &["Judy"]),
        ("cds", "native/cds.cpp", "cds/version.h", &["cds"]),
        ("rocksdb", "native/rocksdb.cpp", "rocksdb/c.h", &["rocksdb"]),
    ];

    /// Compiles each shim that can be; the registry lists the others as missing.
    pub(super) fn build() {
        println!("cargo::rerun-if-changed=native");
        for (name, source, header, libraries) in SHIMS {
            let mut shim = cc::Build::new();
            shim.cpp(true).std("c++17").opt_level(3).file(source);
            // Headers of others are theirs to mend.
            shim.warnings(false).cargo_warnings(false);
            // First whether the libraries are there: an archive that was compiled is linked.
            if !can_link(&shim, libraries) || shim.try_compile(&format!("peer_{name}")).is_err() {
                // Cargo tries again at every build until the file is there.
                println!("cargo::rerun-if-changed=/usr/include/{header}");
                continue;
            }
            println!("cargo::rustc-cfg=peer=\"{name}\"");
            for library in *libraries {
                println!("cargo::rustc-link-lib={library}");
            }
            if *name == "judy" {
                judy_version();
            }
        }
    }

    /// Whether the linker finds these libraries: one may be there without the other half, its
    /// headers, and then linking the lab would fail instead of leaving out a peer.
    fn can_link(shim: &cc::Build, libraries: &[&str]) -> bool {
        let Ok(compiler) = shim.try_get_compiler() else {
            return false;
        };
        if libraries.is_empty() {
            return true;
        }
        let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
        let mut link = compiler.to_command();
        link.args(["-shared", "-o"])
            .arg(Path::new(&out).join("probe.so"));
        link.args(libraries.iter().map(|library| format!("-l{library}")));
        link.output().is_ok_and(|output| output.status.success())
    }

    /// Judy's headers do not tell its version; Debian's package does.
    fn judy_version() {
        let package = ["-W", "-f", "${Version}", "libjudy-dev"];
        let version = Command::new("dpkg-query").args(package).output();
        let version = version.ok().filter(|output| output.status.success());
        let version = version.and_then(|output| String::from_utf8(output.stdout).ok());
        let version = version.unwrap_or_else(|| "unnumbered".to_owned());
        println!("cargo::rustc-env=PEER_JUDY_VERSION={version}");
    }
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
