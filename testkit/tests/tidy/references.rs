//! What documents name exists in the code: identifiers, experiments, versions of formats. And what
//! users look up stands in them: settings with their defaults, all documents.

use std::collections::HashSet;
use std::fs;

use crate::documents::without_code_blocks;
use crate::workspace::{Source, assert_none, files, root};

/// Documents beside `docs/*.md` that say what is. (`CHANGELOG.md` and results say what was.)
const OTHER_DOCUMENTS: &[&str] = &[
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "README.md",
    "UNSAFE.md",
    "lab/data/README.md",
    "lab/peers/README.md",
];

/// Names in documents that are not ours.
const FOREIGN_NAMES: &[(&str, &str)] = &[("RssAnon", "a line of Linux's /proc/PID/status")];

/// Flags of cargo, its test programs, grep and clap.
const FOREIGN_FLAGS: &[&str] = &[
    "doc",
    "example",
    "features",
    "help",
    "ignored",
    "include",
    "nocapture",
    "open",
    "release",
    "test",
    "workspace",
];

/// Settings that have no row: they are in the text beside the table.
const SETTINGS_WITHOUT_ROW: &[(&str, &str)] = &[
    ("config", "names the file of settings"),
    ("resp-password", "the former name of another"),
];

/// A row of the table of formats, and where the newest version of that format is.
const FORMATS: &[(&str, &str, &str)] = &[
    ("manifest", "storage/log/src/manifest.rs", "FORMAT_VERSION"),
    (
        "owner of a log directory",
        "storage/log/src/directories.rs",
        "OWNER_VERSION",
    ),
    ("log", "storage/log/src/segment.rs", "LOG_VERSION"),
    (
        "checkpoint",
        "storage/log/src/checkpoint.rs",
        "CHECKPOINT_VERSION",
    ),
    ("page file", "storage/pages/src/root.rs", "FORMAT"),
    ("dump (`hedgerow dump`)", "cli/src/dump_file.rs", "VERSION"),
];

fn documents() -> impl Iterator<Item = Source> {
    let documents = files("md").into_iter();
    documents.filter(|file| {
        file.path.starts_with("docs/") || OTHER_DOCUMENTS.contains(&file.path.as_str())
    })
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Sources and manifests without these rules, and the scripts of `.ci`.
fn code() -> impl Iterator<Item = String> {
    let sources = ["rs", "toml"].into_iter().flat_map(files);
    let sources = sources.filter(|file| !file.path.starts_with("testkit/tests/tidy/"));
    let scripts = fs::read_dir(root().join(".ci")).expect("the scripts of CI");
    let scripts = scripts.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok());
    sources.map(|file| file.text).chain(scripts)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| !word.is_empty())
}

fn all_words(texts: impl Iterator<Item = String>) -> HashSet<String> {
    let mut all = HashSet::new();
    for text in texts {
        for word in words(&text) {
            if !all.contains(word) {
                all.insert(word.to_owned());
            }
        }
    }
    all
}

/// What stands between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn identifiers_in_documents_exist() {
    let known = all_words(code());
    let root = root();
    let mut problems = Vec::new();
    let mut named = 0;
    for Source { path, text } in documents() {
        let text = without_code_blocks(&text);
        for quoted in quoted(&text) {
            let file = quoted.split(':').next().unwrap_or_default();
            if file.contains('/') && root.join(file).exists() {
                continue;
            }
            for word in words(quoted).filter(|word| is_identifier(word)) {
                named += 1;
                let is_foreign = FOREIGN_NAMES.iter().any(|(name, _)| *name == word);
                if !is_foreign && !is_known(word, &known) {
                    problems.push(format!("{path} names {word}"));
                }
            }
        }
    }
    assert!(named > 200, "documents name identifiers");
    assert_none(&problems, "an identifier in a document is one of the code");
}

/// Whether a word can be nothing but a name of code: `snake_case`, `UPPER_CASE`, or `CamelCase`
/// without two capitals beside each other.
fn is_identifier(word: &str) -> bool {
    let parts: Vec<&str> = word.split('_').collect();
    if parts.len() > 1 {
        let are_all = |is_letter: fn(char) -> bool| {
            let is_part = |part: &&str| {
                !part.is_empty() && part.chars().all(|c| is_letter(c) || c.is_ascii_digit())
            };
            word.starts_with(is_letter) && parts.iter().all(is_part)
        };
        return are_all(|c| c.is_ascii_lowercase()) || are_all(|c| c.is_ascii_uppercase());
    }
    let letters = word.as_bytes();
    let humps = letters.iter().filter(|c| c.is_ascii_uppercase()).count();
    let is_capital = |at: usize| letters.get(at).is_none_or(u8::is_ascii_uppercase);
    humps > 1
        && is_capital(0)
        && (0..letters.len()).all(|at| !is_capital(at) || !is_capital(at + 1))
}

/// A metric begins with the product's name, one of a tree with `index` behind it, which its place
/// in the code leaves out. A name may also end a longer one, as numbers of system calls do.
fn is_known(word: &str, known: &HashSet<String>) -> bool {
    let metric = word.strip_prefix("hedgerow_").unwrap_or(word);
    let of_index = metric.strip_prefix("index_").unwrap_or(metric);
    let is_end = |longer: &String| {
        let front = longer.strip_suffix(word);
        front.is_some_and(|front| front.ends_with('_'))
    };
    [word, metric, of_index]
        .iter()
        .any(|name| known.contains(*name))
        || known.iter().any(is_end)
}

#[test]
fn names_are_in_the_files_beside_them() {
    let mut problems = Vec::new();
    let mut followed = 0;
    for Source { path, text } in documents() {
        for (name, file) in names_in_files(&without_code_blocks(&text)) {
            followed += 1;
            let known = all_words([read(&file)].into_iter());
            if !words(&name).all(|word| known.contains(word)) {
                problems.push(format!("{path}: {name} is not in {file}"));
            }
        }
    }
    assert!(followed > 4, "documents say in which file a name is");
    assert_none(&problems, "a name is in the file that a document names");
}

/// Names and files of "`name` in `file.rs`".
fn names_in_files(text: &str) -> Vec<(String, String)> {
    let parts: Vec<&str> = text.split('`').collect();
    let threes = parts.windows(3).skip(1).step_by(2);
    threes
        .filter(|three| three[1].trim() == "in" && three[2].ends_with(".rs"))
        .map(|three| (three[0].to_owned(), three[2].to_owned()))
        .collect()
}

#[test]
fn experiments_in_documents_exist() {
    let (sources, known) = experiments();
    assert!(sources.len() > 5 && known.len() > 70);
    let mut problems = Vec::new();
    let mut named = 0;
    for Source { path, text } in documents() {
        let carried_on = match path.as_str() {
            "docs/lab.md" => names_of_rows(&text),
            _ => Vec::new(),
        };
        let whole = text
            .split(|c: char| !c.is_ascii_alphanumeric() && !"/_-.".contains(c))
            .map(|word| word.trim_end_matches('.').to_owned());
        for name in whole.chain(carried_on) {
            let Some((source, figure)) = name.split_once('/') else {
                continue;
            };
            if !sources.contains(source) || figure.is_empty() || figure.contains('/') {
                continue;
            }
            named += 1;
            if !known.contains(&name) {
                problems.push(format!("{path} names {name}"));
            }
        }
    }
    assert!(named > 70, "documents name experiments");
    assert_none(&problems, "the lab has each experiment of the documents");
}

/// Where the lab's experiments are from, and what they and their workloads are called.
fn experiments() -> (HashSet<String>, HashSet<String>) {
    let mut sources = HashSet::new();
    let mut known = HashSet::new();
    for Source { path, text } in files("rs") {
        if !path.starts_with("lab/src/experiments/") {
            continue;
        }
        known.extend(text.split('"').skip(1).map(str::to_owned));
        let names = text.split("name: \"").skip(1);
        let names = names.filter_map(|rest| rest.split('"').next()?.split_once('/'));
        sources.extend(names.map(|(source, _)| source.to_owned()));
    }
    for Source { path, .. } in files("toml") {
        if let Some(workload) = path.strip_prefix("lab/data/workloads/") {
            known.insert(workload.trim_end_matches(".toml").to_owned());
        }
    }
    (sources, known)
}

/// The quoted names in the first cells of a table's rows. One without a source has that of the name
/// before it.
fn names_of_rows(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for row in text.lines().filter_map(|line| line.strip_prefix("| `")) {
        let cell = row.split(" | ").next().unwrap_or_default();
        let mut source = "";
        for (at, name) in cell.split('`').enumerate().filter(|(at, _)| at % 2 == 0) {
            match name.split_once('/') {
                Some((of_its_own, _)) => {
                    source = of_its_own;
                    names.push(name.to_owned());
                }
                None if at > 0 && !name.is_empty() && !source.is_empty() => {
                    names.push(format!("{source}/{name}"));
                }
                None => {}
            }
        }
    }
    names
}

#[test]
fn flags_in_documents_exist() {
    let sources = files("rs");
    let defining = sources.iter().filter(|file| file.text.contains("#[arg("));
    let known: HashSet<String> = defining.flat_map(|file| flags(&file.text)).collect();
    let mut problems = Vec::new();
    let mut named = 0;
    for Source { path, text } in documents() {
        for flag in flags_in(&text) {
            named += 1;
            if !known.contains(flag) && !FOREIGN_FLAGS.contains(&flag) {
                problems.push(format!("{path} names --{flag}"));
            }
        }
    }
    assert!(named > 150, "documents name flags");
    assert_none(&problems, "a flag in a document is one of a command");
}

/// What may be flags in a definition of a command line: fields, and other names of them.
fn flags(definition: &str) -> Vec<String> {
    let fields = definition.lines().filter_map(|line| {
        let (field, _) = line.trim().split_once(": ")?;
        let field = field.rsplit(' ').next()?;
        Some(field.replace('_', "-"))
    });
    let others = definition.split("alias = \"").skip(1);
    let others = others.filter_map(|rest| Some(rest.split('"').next()?.to_owned()));
    fields.chain(others).collect()
}

/// The flags that a text names, without their dashes.
fn flags_in(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("--").filter_map(|(at, dashes)| {
        let before = text[..at].chars().next_back();
        let rest = &text[at + dashes.len()..];
        let is_flag = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let end = rest.find(|c: char| !is_flag(c)).unwrap_or(rest.len());
        let flag = rest[..end].trim_end_matches('-');
        let begins = before.is_none_or(|c| !c.is_alphanumeric() && c != '-');
        (begins && flag.starts_with(|c: char| c.is_ascii_lowercase())).then_some(flag)
    })
}

#[test]
fn every_setting_has_its_row() {
    let arguments = read("cli/src/serve_arguments.rs");
    let settings = settings(&arguments);
    let document = read("docs/operations.md");
    let (_, table) = document.split_once("\n## Settings\n").expect("a table");
    let table = table.split("\n## ").next().unwrap_or_default();
    let rows: Vec<(&str, &str)> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .collect();
    let mut problems = Vec::new();
    for (name, default) in &settings {
        let row = rows.iter().find(|(setting, _)| setting == name);
        let is_excepted = SETTINGS_WITHOUT_ROW.iter().any(|(other, _)| other == name);
        match row {
            None if !is_excepted => problems.push(format!("{name} has no row")),
            Some((_, rest)) => {
                let cell = rest.split(" | ").next().unwrap_or_default();
                if default.starts_with(|c: char| c.is_ascii_digit()) && !cell.contains(default) {
                    problems.push(format!("{name} is {default} in --help, and {cell} there"));
                }
            }
            None => {}
        }
    }
    let is_setting = |name: &str| settings.iter().any(|(setting, _)| setting == name);
    let others = rows.iter().filter(|(name, _)| !is_setting(name));
    problems.extend(others.map(|(name, _)| format!("there is no setting {name}")));
    assert!(settings.len() > 30, "there are settings");
    assert_none(&problems, "docs/operations.md has a row for each setting");
}

/// Settings of `serve` as they are written, each with the first word of its default.
fn settings(arguments: &str) -> Vec<(String, String)> {
    let (_, fields) = arguments.split_once("struct Serve {").expect("settings");
    let mut settings = Vec::new();
    let mut help = String::new();
    for line in fields.lines().take_while(|line| *line != "}") {
        let line = line.trim();
        if let Some(text) = line.strip_prefix("///") {
            help.push_str(text);
        } else if let Some(field) = line.strip_prefix("pub(crate) ") {
            let name = field.split(':').next().unwrap_or_default();
            let default = help.split("[default: ").nth(1).unwrap_or_default();
            let default = default.split([',', ';', ' ', ']']).next();
            let default = default.unwrap_or_default().to_owned();
            settings.push((name.replace('_', "-"), default));
            help.clear();
        }
    }
    settings
}

#[test]
fn every_command_has_its_family() {
    let table = read("server/src/resp/table.rs");
    let document = read("docs/protocol.md");
    let (_, families) = document.split_once("\n## Commands\n").expect("families");
    let families = families.split("\n## ").next().unwrap_or_default();
    let cells = families.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = cells.filter_map(|row| row.split(" | ").nth(1)?.strip_prefix('`'));
    let listed: Vec<&str> = cells
        .flat_map(|cell| cell.split('`').next().unwrap_or_default().split(' '))
        .collect();
    let commands = commands(&table);
    assert!(commands.len() > 80, "there are commands");
    let missing = commands.iter().filter(|name| !listed.contains(name));
    let others = listed.iter().filter(|name| !commands.contains(name));
    let problems = missing
        .map(|name| format!("{name} is in no family"))
        .chain(others.map(|name| format!("there is no command {name}")));
    let problems: Vec<String> = problems.collect();
    assert_none(
        &problems,
        "docs/protocol.md lists each command of Redis clients",
    );
}

/// The names of lines of the form `"NAME" arity (first, last, step) [FLAGS] "group" function,`.
fn commands(table: &str) -> Vec<&str> {
    let lines = table.lines().filter(|line| line.contains(") ["));
    let names = lines.filter_map(|line| line.strip_prefix("    \"")?.split('"').next());
    names.collect()
}

#[test]
fn versions_of_formats_are_the_newest() {
    let document = read("docs/stability.md");
    let mut problems = Vec::new();
    for (row, file, constant) in FORMATS {
        let start = format!("| {row} | ");
        let cells = document.lines().find_map(|line| line.strip_prefix(&start));
        let cell = cells.and_then(|cells| cells.split(" | ").next());
        let newest = words(cell.unwrap_or_default()).filter_map(|word| word.parse::<u32>().ok());
        let newest = newest.max();
        let source = read(file);
        let declared = source.split(&format!("const {constant}: u32 = ")).nth(1);
        let declared = declared.and_then(|rest| rest.split(';').next()?.parse().ok());
        if newest.is_none() || newest != declared {
            problems.push(format!("{row}: {newest:?}, in {file} {declared:?}"));
        }
    }
    assert_none(&problems, "docs/stability.md has the newest versions");
}

#[test]
fn the_readme_leads_to_every_document() {
    let readme = read("README.md");
    let documents = documents().filter(|file| file.path.starts_with("docs/"));
    let missing = documents.filter(|file| !readme.contains(&format!("]({})", file.path)));
    let missing: Vec<String> = missing.map(|file| file.path).collect();
    assert_none(&missing, "README.md links to each document");
}

#[test]
fn what_is_named_is_found() {
    for name in ["walked_s", "HEDGEROW_DATA", "BlockPool", "sse2_x"] {
        assert!(is_identifier(name), "{name}");
    }
    for name in [
        "walked",
        "DATA",
        "Pool",
        "YCSB",
        "BTreeIndex",
        "a_B",
        "x_",
        "2_a",
        "MongoDB",
    ] {
        assert!(!is_identifier(name), "{name}");
    }
    let known = all_words(["rows_total walked_seconds SYS_call_x".to_owned()].into_iter());
    for name in [
        "rows_total",
        "hedgerow_rows_total",
        "hedgerow_index_walked_seconds",
        "call_x",
    ] {
        assert!(is_known(name, &known), "{name}");
    }
    assert!(!is_known("rows", &known) && !is_known("hedgerow_total", &known));
    let text = "`a` and `X::y` in `b.rs`, `c` in\n`d.rs`; `e` in `f`";
    let pairs = [("X::y", "b.rs"), ("c", "d.rs")];
    assert_eq!(
        names_in_files(text),
        pairs.map(|(name, file)| (name.to_owned(), file.to_owned()))
    );
    let table =
        "commands! {\n    \"GET\" 2 (1, 1, 1) [READ] \"s\" get,\n        \"Returns it.\";\n";
    assert_eq!(commands(table), ["GET"]);
    let table = "| `a/b`, `c` | `x` |\n| `d` | e |\n";
    assert_eq!(names_of_rows(table), ["a/b", "a/c"]);
    let text = "`--a-b=1` |---| a--b <!-- c --> (--d2)--";
    assert_eq!(flags_in(text).collect::<Vec<_>>(), ["a-b", "d2"]);
    let definition = "    #[arg(long, alias = \"other\")]\n    pub(crate) a_b: u8,\n";
    assert_eq!(flags(definition), ["a-b", "other"]);
    let arguments = "struct Serve {\n    /// How long\n    /// [default: 2s, or so].\n    \
                     #[arg(long)]\n    pub(crate) a_b: u8,\n}\nstruct C {\n    pub(crate) c: u8,\n";
    assert_eq!(settings(arguments), [("a-b".to_owned(), "2s".to_owned())]);
}
