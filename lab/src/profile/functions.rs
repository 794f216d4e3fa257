//! Which function of the source an instruction belongs to.
//!
//! A tree's whole operation is compiled into one function for each kernel, so the symbol table says
//! nothing. The line tables know what was inlined where: `addr2line` of the GNU binutils, which
//! come with the C linker, lists the functions around an address from the innermost on. The first
//! of them that is neither the standard library's, nor a dependency's, nor one of a few helpers
//! that stand for their caller, is the one that a reader would name.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::NamedTempFile;

use crate::{LabError, Result};

/// Files whose functions stand for whoever calls them: comparisons of lanes, and prefetches.
const HELPERS: [&str; 4] = [
    "trees/simd/src/",
    "trees/matryoshka/src/node_key.rs",
    "trees/matryoshka/src/line.rs",
    "storage/memory/src/prefetch.rs",
];

/// Parts of paths of what others wrote.
const OF_OTHERS: [&str; 4] = ["/rustc/", "/registry/src/", "/library/", "??"];

/// The functions of these addresses in a file; those without a name are left out.
///
/// # Errors
///
/// When `addr2line` cannot be run.
pub fn names(program: &Path, object: &str, addresses: &[u64]) -> Result<BTreeMap<u64, String>> {
    let mut list = NamedTempFile::with_prefix("hedgerow-lab-")?;
    for address in addresses {
        writeln!(list, "{address:#x}")?;
    }
    list.flush()?;
    let output = Command::new(program)
        .args(["-a", "-f", "-i", "-C", "-e", object])
        .arg(format!("@{}", list.path().display()))
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(LabError::Process(format!("addr2line: {}", why.trim())));
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads blocks of an address and, from the innermost on, lines of a function and of its place.
fn parse(text: &str) -> BTreeMap<u64, String> {
    let mut names = BTreeMap::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let address = line.strip_prefix("0x");
        let address = address.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let Some(address) = address else { continue };
        let mut name = None;
        while lines.peek().is_some_and(|line| !line.starts_with("0x")) {
            let (Some(function), Some(place)) = (lines.next(), lines.next()) else {
                break;
            };
            let file = place.rsplit_once(':').map_or(place, |(file, _)| file);
            let passed_by = HELPERS.iter().chain(&OF_OTHERS);
            if name.is_none() && passed_by.into_iter().all(|part| !file.contains(part)) {
                name = Some(shown(function, file));
            }
        }
        names.extend(name.map(|name| (address, name)));
    }
    names
}

/// A function's own name behind its file and folder: `node/page.rs: path`.
fn shown(function: &str, file: &str) -> String {
    let mut folders: Vec<&str> = file.rsplit('/').take(2).collect();
    folders.reverse();
    format!("{}: {}", folders.join("/"), own_name(function))
}

/// The last segment of a function's path, without what it is generic over.
#[must_use]
pub fn own_name(function: &str) -> &str {
    let is_hash = |end: &str| end.len() == 16 && end.bytes().all(|b| b.is_ascii_hexdigit());
    let path = match function.rsplit_once("::h") {
        Some((path, end)) if is_hash(end) => path,
        _ => function,
    };
    let (mut depth, mut from, mut to, mut before) = (0, 0, path.len(), ' ');
    for (at, letter) in path.char_indices() {
        match letter {
            // An arrow closes nothing.
            '>' if before == '-' => {}
            '<' => {
                depth += 1;
                if depth == 1 && at > from {
                    to = at;
                }
            }
            '>' => depth -= 1,
            ':' if depth == 0 => (from, to) = (at + 1, path.len()),
            _ => {}
        }
        before = letter;
    }
    match path.get(from..to).map(|name| name.trim_matches(':')) {
        Some(name) if !name.is_empty() => name,
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_function_of_ours_is_named() {
        let text = "\
0x0000000000001000
_mm256_cmpgt_epi32
/rustc/abc/library/core/src/../../stdarch/crates/core_arch/src/x86/avx2.rs:900
count_32_avx2
/home/x/trees/simd/src/x86.rs:120 (discriminator 2)
path<i32, (), hedgerow_simd::x86::Avx2>
/home/x/trees/matryoshka/src/paper/node/page.rs:240
run
/home/x/trees/simd/src/level.rs:130
0x0000000000001004
malloc
??:?
0x0000000000001008
hedgerow_matryoshka::paper::tree::Matryoshka<K,V,S>::insert_from_root
/home/x/trees/matryoshka/src/paper/tree/mod.rs:400
";
        let names = parse(text);
        assert_eq!(names[&0x1000], "node/page.rs: path");
        assert_eq!(names.get(&0x1004), None);
        assert_eq!(names[&0x1008], "tree/mod.rs: insert_from_root");
    }

    #[test]
    fn a_name_is_the_last_of_its_path() {
        for (function, name) in [
            ("memmove", "memmove"),
            (
                "core::ptr::drop_in_place<alloc::vec::Vec<u8>>",
                "drop_in_place",
            ),
            ("<a::B<C> as d::E>::mixed_run", "mixed_run"),
            ("a::b::c::h0123456789abcdef", "c"),
            ("a::{closure#0}", "{closure#0}"),
            ("a::hello::x<fn(u8) -> b::C>", "x"),
        ] {
            assert_eq!(own_name(function), name);
        }
    }
}
