//! Files of a crate do not import each other in circles, but for those of `rings.rs`.
//!
//! A file *imports* another if it names what that file holds: in a `use`, or by a path in its code.
//! A name that a parent re-exports counts for the file that holds it. Modules for tests are left
//! out. A *ring* is a set of files each of which reaches every other one by imports.

use std::collections::{BTreeMap, BTreeSet};

use crate::rings::RINGS;
use crate::workspace::{Source, assert_none, files};

#[test]
fn files_import_each_other_in_no_circle() {
    let mut found: BTreeSet<String> = BTreeSet::new();
    for (folder, modules) in crates(files("rs")) {
        let rings = rings(&imports(&modules));
        found.extend(rings.iter().map(|ring| shown(&folder, ring)));
    }
    let listed = RINGS.iter().map(|ring| {
        let files: Vec<&str> = ring.files.split_whitespace().collect();
        shown(ring.folder, &files)
    });
    assert_none(
        &differences(&found, &listed.collect()),
        "no circle of imports but those of tests/tidy/rings.rs: move what the wrong file holds; \
         where a ring has shrunk or gone, correct the list",
    );
    assert!(RINGS.iter().all(|ring| !ring.why.is_empty()));
}

fn shown(folder: &str, files: &[&str]) -> String {
    format!("{folder}: {}", files.join(" "))
}

/// What one set of rings has and the other has not.
fn differences(found: &BTreeSet<String>, listed: &BTreeSet<String>) -> Vec<String> {
    let new = found.difference(listed);
    let gone = listed.difference(found);
    let new = new.map(|ring| format!("not listed: {ring}"));
    new.chain(gone.map(|ring| format!("listed, and no such ring: {ring}")))
        .collect()
}

/// The path of a module below its crate: none of a crate's root.
type Module = Vec<String>;

/// The modules of a crate, with their files below `src` and their code.
type Modules = BTreeMap<Module, (String, String)>;

/// All crates by their folders.
fn crates(sources: Vec<Source>) -> BTreeMap<String, Modules> {
    let mut crates: BTreeMap<String, Modules> = BTreeMap::new();
    for source in sources {
        let Some((folder, file)) = source.path.split_once("/src/") else {
            continue;
        };
        let modules = crates.entry(folder.to_owned()).or_default();
        let mut module: Module = file
            .trim_end_matches(".rs")
            .split('/')
            .map(str::to_owned)
            .collect();
        if module.last().is_some_and(|last| last == "mod") || module == ["lib"] {
            module.pop();
        }
        // A program beside a library is a crate of its own, of one file.
        if module == ["main"] {
            module.pop();
            if modules.contains_key(&module) {
                continue;
            }
        }
        modules.insert(module, (file.to_owned(), code(&source.text)));
    }
    for modules in crates.values_mut() {
        leave_out_tests(modules);
    }
    crates
}

/// The text without comments, and without modules for tests.
fn code(text: &str) -> String {
    let lines = text.lines().map(|line| match line.find("//") {
        Some(at) if line[..at].trim().is_empty() || line[..at].ends_with(' ') => &line[..at],
        _ => line,
    });
    let mut code = lines.collect::<Vec<_>>().join("\n");
    let is_block = |code: &str, at: usize| {
        let declared = code[at..].lines().nth(1);
        declared.is_some_and(|line| line.ends_with('{'))
    };
    while let Some((start, _)) = code
        .match_indices("#[cfg(test)]\nmod ")
        .find(|(at, _)| is_block(&code, *at))
    {
        // The brace that ends a module stands alone at the beginning of a line.
        let end = code[start..].find("\n}").map(|at| start + at + "\n}".len());
        code.replace_range(start..end.unwrap_or(code.len()), "");
    }
    code
}

/// Leaves out files that are declared as modules for tests.
fn leave_out_tests(modules: &mut Modules) {
    let mut tests: Vec<Module> = Vec::new();
    for (module, (_, code)) in modules.iter() {
        for (at, found) in code.match_indices("#[cfg(test)]\nmod ") {
            let name = code[at + found.len()..]
                .split(';')
                .next()
                .unwrap_or_default();
            tests.push([module.as_slice(), &[name.to_owned()]].concat());
        }
    }
    modules.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
}

/// What each file imports, by the names of files.
fn imports(modules: &Modules) -> BTreeMap<&str, BTreeSet<&str>> {
    let uses: BTreeMap<&Module, Uses> = modules
        .iter()
        .map(|(module, (_, code))| (module, uses(code)))
        .collect();
    let re_exports = re_exports(modules, &uses);
    let mut imports: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (module, (file, _)) in modules {
        let uses = &uses[module];
        let paths = uses
            .imported
            .iter()
            .map(|(path, _)| path)
            .chain(&uses.paths);
        let mut imported: Vec<Module> = paths
            .filter_map(|path| absolute(modules, module, path))
            .map(|path| holder(modules, &re_exports, path))
            .collect();
        // A name that the file re-exports, and uses itself.
        let re_exported = uses
            .exported
            .iter()
            .filter(|(_, name)| uses.words.contains(name));
        imported.extend(re_exported.filter_map(|(_, name)| {
            let own = [module.as_slice(), std::slice::from_ref(name)].concat();
            re_exports
                .get(&own)
                .map(|path| holder(modules, &re_exports, path.clone()))
        }));
        let others = imported.iter().filter(|other| *other != module);
        let others = others.filter_map(|other| modules.get(other).map(|(file, _)| file.as_str()));
        imports.entry(file).or_default().extend(others);
    }
    imports
}

/// The names that a file uses.
#[derive(Default)]
struct Uses {
    /// Paths of private `use`s, with the name that each brings.
    imported: Vec<(Module, String)>,
    /// The same of public ones.
    exported: Vec<(Module, String)>,
    /// Paths in the code.
    paths: Vec<Module>,
    /// Words in the code.
    words: BTreeSet<String>,
}

fn uses(code: &str) -> Uses {
    let mut uses = Uses::default();
    let mut rest = String::new();
    let mut left = code;
    while let Some((at, public)) = next_use(left) {
        rest.push_str(&left[..at]);
        let statement = &left[at + "use ".len()..];
        let (tree, after) = statement.split_once(';').unwrap_or((statement, ""));
        let named = match public {
            true => &mut uses.exported,
            false => &mut uses.imported,
        };
        expand(&[], tree, named);
        left = after;
    }
    rest.push_str(left);
    let mut before = "";
    let words = rest.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    for word in words.filter(|word| !word.is_empty()) {
        let parts: Module = word.split("::").map(str::to_owned).collect();
        // What a declaration names is not used by it.
        if before != "mod" {
            uses.words.insert(parts[0].clone());
        }
        before = word;
        if parts.len() > 1 && !parts[0].is_empty() {
            uses.paths.push(parts);
        }
    }
    uses
}

/// Where the next `use` stands, and whether it is public.
fn next_use(code: &str) -> Option<(usize, bool)> {
    code.match_indices("use ").find_map(|(at, _)| {
        let before = code[..at].rsplit('\n').next().unwrap_or_default().trim();
        let public = before.starts_with("pub") && !before.contains(' ');
        (before.is_empty() || public).then_some((at, public))
    })
}

/// The paths of a tree of `use`, each with the name that it brings.
fn expand(prefix: &[String], tree: &str, named: &mut Vec<(Module, String)>) {
    let segments = |path: &str| -> Module {
        let parts = path.split("::").map(|part| part.trim().to_owned());
        let parts = parts.filter(|part| !part.is_empty());
        prefix.iter().cloned().chain(parts).collect()
    };
    if let Some((before, inner)) = tree.split_once('{') {
        let inner = inner.rsplit_once('}').map_or(inner, |(inner, _)| inner);
        let mut depth = 0;
        let branches = inner.split(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        });
        for branch in branches.filter(|branch| !branch.trim().is_empty()) {
            expand(&segments(before), branch, named);
        }
        return;
    }
    let (path, alias) = match tree.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim().to_owned())),
        None => (tree, None),
    };
    let mut path = segments(path);
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    let name = alias.or_else(|| path.last().cloned()).unwrap_or_default();
    named.push((path, name));
}

/// A path from the crate's root, if it does not lead out of the crate.
fn absolute(modules: &Modules, module: &Module, path: &Module) -> Option<Module> {
    let first = path.first()?;
    let mut base = module.clone();
    match first.as_str() {
        "crate" => base.clear(),
        "self" => {}
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            base.truncate(base.len().checked_sub(ups)?);
            return Some([base.as_slice(), &path[ups..]].concat());
        }
        _ => {
            base.push(first.clone());
            modules.get(&base)?;
        }
    }
    Some([base.as_slice(), &path[1..]].concat())
}

/// Where names come from that files re-export: both from the crate's root.
fn re_exports(modules: &Modules, uses: &BTreeMap<&Module, Uses>) -> BTreeMap<Module, Module> {
    let all = uses.iter().flat_map(|(module, uses)| {
        uses.exported.iter().filter_map(|(path, name)| {
            let own = [module.as_slice(), std::slice::from_ref(name)].concat();
            Some((own, absolute(modules, module, path)?))
        })
    });
    all.filter(|(own, path)| own != path).collect()
}

/// The module that holds what a path names.
fn holder(modules: &Modules, re_exports: &BTreeMap<Module, Module>, path: Module) -> Module {
    let mut path = path;
    // Re-exports of re-exports end; should some not, any module of theirs will do.
    for _ in 0..8 {
        let whole = (0..=path.len()).rev();
        let mut known = whole.filter(|end| modules.contains_key(&path[..*end]));
        let end = known.next().unwrap_or(0);
        let name = &path[..path.len().min(end + 1)];
        let Some(origin) = re_exports.get(name).filter(|_| end < path.len()) else {
            path.truncate(end);
            break;
        };
        path = [origin.as_slice(), &path[end + 1..]].concat();
    }
    path
}

/// The sets of files that reach each other, each in order.
fn rings<'a>(imports: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<Vec<&'a str>> {
    let reached = |from: &'a str| {
        let mut reached: BTreeSet<&str> = BTreeSet::new();
        let mut open = vec![from];
        while let Some(file) = open.pop() {
            let imported = imports.get(file).into_iter().flatten();
            open.extend(imported.filter(|other| reached.insert(other)));
        }
        reached
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|file| (*file, reached(file))).collect();
    let on_rings = reached.iter().filter(|(file, all)| all.contains(*file));
    on_rings
        .map(|(file, all)| {
            let ring = all.iter().filter(|other| reached[*other].contains(file));
            ring.copied().collect()
        })
        .collect()
}

/// The rings of a made-up crate.
fn rings_of(sources: &[(&str, &str)]) -> Vec<String> {
    let sources = sources.iter().map(|(file, text)| Source {
        path: format!("made/src/{file}"),
        text: (*text).to_owned(),
    });
    let crates = crates(sources.collect());
    let rings = rings(&imports(&crates["made"]));
    rings.iter().map(|ring| shown("made", ring)).collect()
}

#[test]
fn circles_are_found_however_they_are_written() {
    let ring = ["made: a.rs b.rs"];
    let of = |root, a, b| rings_of(&[("lib.rs", root), ("a.rs", a), ("b.rs", b)]);
    let imports_b = "use crate::{b::{self, B}, c as d};";
    assert_eq!(of("", imports_b, "use super::a::A;"), ring);
    assert_eq!(of("", imports_b, "fn f() { crate::a::g::<u8>() }"), ring);
    assert_eq!(
        of("pub use b::B as C;", "use crate::C;", "use crate::a;"),
        ring
    );
    let parent = [
        ("a/mod.rs", "mod b;\npub use b::B;\nstruct A(B);"),
        ("a/b.rs", "use super::A;"),
    ];
    assert_eq!(rings_of(&parent), ["made: a/b.rs a/mod.rs"]);
    let longer = [
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "use crate::c::C;"),
        ("c.rs", "use crate::a::A;"),
        ("d.rs", "use crate::a::A;"),
    ];
    assert_eq!(rings_of(&longer), ["made: a.rs b.rs c.rs"]);
}

#[test]
fn what_is_no_circle_is_not_found() {
    let a = "use crate::b::B;";
    let of = |b| {
        rings_of(&[
            ("lib.rs", "mod a;\npub use a::A;"),
            ("a.rs", a),
            ("b.rs", b),
        ])
    };
    let none: [String; 0] = [];
    assert_eq!(of("use std::fs; struct B;"), none);
    assert_eq!(of("// crate::a::A\nstruct B;"), none);
    assert_eq!(
        of("struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}"),
        none
    );
    let behind = "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\nuse crate::a::A;";
    assert_eq!(of(behind), ["made: a.rs b.rs"]);
    let tests = ("b/tests.rs", "use crate::a::A;");
    let b = ("b.rs", "#[cfg(test)]\nmod tests;\nfn f() { tests::g() }");
    assert_eq!(rings_of(&[("a.rs", a), b, tests]), none);
}

#[test]
fn a_ring_that_grew_shrank_or_went_differs_from_the_list() {
    let of = |rings: &[&str]| rings.iter().map(|ring| (*ring).to_owned()).collect();
    let listed = of(&["made: a.rs b.rs c.rs"]);
    assert!(differences(&listed, &listed).is_empty());
    assert_eq!(differences(&of(&[]), &listed).len(), 1);
    assert_eq!(differences(&of(&["made: a.rs b.rs"]), &listed).len(), 2);
    assert_eq!(
        differences(&of(&["made: a.rs b.rs c.rs d.rs"]), &listed).len(),
        2
    );
}
