//! `hedgerow-lab layout`: loads a tree and shows how its nodes lie in memory.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use hedgerow_lab_layout::{Between, LayoutEntry, Load, entries, inspected};
use hedgerow_lab_report::{
    Experiment, Inspected, Layout, Participant, Record, Run, SCHEMA, write_report,
};
use hedgerow_memory::Placement;
use hedgerow_memory::layout::Inspector;

use crate::machine::{self, STANDARD_ALLOCATOR};
use crate::{LabError, Result};

/// What is allocated between insertions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Beside {
    /// Nothing.
    Nothing,
    /// A block of a random size.
    Random,
    /// Row, data, wrapper, padded lock and value of a YCSB record.
    Rows,
    /// The same with a lock that is not padded.
    RowsUnpadded,
}

/// How the nodes of a tree lie in memory.
#[derive(Debug, clap::Args)]
pub struct LayoutArguments {
    /// The tree, by its name; without one, all names are listed.
    tree: Option<String>,
    /// Where its nodes come from: segregated, merged (size classes), or system (the standard
    /// allocator of this build, which may be called by its name).
    #[arg(long, visible_alias = "allocator", value_parser = placement)]
    #[arg(default_value = "segregated")]
    placement: Placement,
    /// How many random keys it has.
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,
    /// What is allocated between insertions.
    #[arg(long, value_enum, default_value = "nothing")]
    beside: Beside,
    /// Allocate 32 bytes before the tree, from the same place: nodes of that size then pair
    /// differently on lines. Segregated nodes would not move.
    #[arg(long)]
    shifted: bool,
    /// Append what is found to this file of results, for `hedgerow-lab report`.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a report with tables and pictures into this folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
///
/// A tree that does not exist, or a folder that cannot be written.
pub fn run(arguments: &LayoutArguments) -> Result<()> {
    let Some(name) = &arguments.tree else {
        list();
        return Ok(());
    };
    let entries = entries();
    let entry = entries.iter().find(|entry| entry.name == name);
    let entry = entry.ok_or_else(|| {
        LabError::Usage(format!(
            "no tree is called '{name}'; `hedgerow-lab layout` lists them"
        ))
    })?;
    if arguments.shifted && arguments.placement == Placement::Segregated {
        let why = "--shifted moves no node that is segregated: add --placement merged (or system)";
        return Err(LabError::Usage(why.to_owned()));
    }
    let load = Load {
        keys: arguments.keys,
        placement: arguments.placement,
        between: match arguments.beside {
            Beside::Nothing => Between::Nothing,
            Beside::Random => Between::Random,
            Beside::Rows => Between::Rows,
            Beside::RowsUnpadded => Between::RowsUnpadded,
        },
        shifted: arguments.shifted,
    };
    let title = title(arguments, entry);
    let layout = Inspector::of_this_machine().layout_of(&load.run(entry));
    let inspected = inspected(&layout);
    println!("{title}\n\n{inspected}");
    let lines = lines(name, &title, inspected)?;
    if let Some(path) = &arguments.json {
        let file = File::options().create(true).append(true).open(path);
        let mut file = file.map_err(|error| {
            LabError::Usage(format!("cannot write {}: {error}", path.display()))
        })?;
        file.write_all(lines.as_bytes())?;
    }
    if let Some(folder) = &arguments.out {
        let results = tempfile::NamedTempFile::new()?;
        std::fs::write(&results, &lines)?;
        let written = write_report(&[results.path()], folder).map_err(LabError::from_display)?;
        println!("{}", written[0].display());
    }
    Ok(())
}

/// A run of results, as lines: one experiment that holds one layout.
fn lines(tree: &str, title: &str, inspected: Inspected) -> Result<String> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let words: Vec<_> = std::env::args().skip(1).collect();
    let experiment = format!("layout/{}", tree.replace(' ', "-"));
    let records = [
        Record::Run(Run {
            schema: SCHEMA,
            command: format!("hedgerow-lab {}", words.join(" ")),
            started: since_1970.map_or(0, |time| time.as_secs()),
            scale: "as told".to_owned(),
            machine: machine::describe(),
            contenders: vec![Participant {
                name: tree.to_owned(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                origin: hedgerow_lab_report::OURS.to_owned(),
            }],
        }),
        Record::Experiment(Experiment {
            name: experiment.clone(),
            title: title.to_owned(),
            source: String::new(),
            claim: String::new(),
            x_label: None,
            x_log: false,
            here: None,
            compared_to: None,
            baseline: tree.to_owned(),
        }),
        Record::Layout(Layout {
            experiment,
            parameters: [].into(),
            x: None,
            contender: tree.to_owned(),
            inspected,
        }),
    ];
    let mut lines = String::new();
    for record in records {
        lines += &serde_json::to_string(&record).map_err(LabError::from_display)?;
        lines.push('\n');
    }
    Ok(lines)
}

fn title(arguments: &LayoutArguments, entry: &LayoutEntry) -> String {
    let place = match arguments.placement {
        Placement::System => format!("system ({STANDARD_ALLOCATOR})"),
        placement => placement.name().to_owned(),
    };
    let beside = match arguments.beside {
        Beside::Nothing => "",
        Beside::Random => ", blocks of random sizes beside them",
        Beside::Rows => ", rows beside them",
        Beside::RowsUnpadded => ", rows with unpadded locks beside them",
    };
    let shifted = if arguments.shifted { ", shifted" } else { "" };
    let (name, keys) = (entry.name, arguments.keys);
    format!("{name}, {keys} keys, nodes {place}{beside}{shifted}")
}

/// The placement that the command line names; the standard allocator has a name of its own, too.
fn placement(name: &str) -> std::result::Result<Placement, String> {
    if name == STANDARD_ALLOCATOR {
        return Ok(Placement::System);
    }
    let names = Placement::ALL.map(Placement::name).join(", ");
    Placement::from_name(name).ok_or_else(|| match name {
        "jemalloc" | "mimalloc" => format!(
            "the standard allocator of this build is {STANDARD_ALLOCATOR}: build the lab with \
             --features {name}"
        ),
        _ => format!("there are {names}"),
    })
}

fn list() {
    let names = Placement::ALL.map(Placement::name).join(", ");
    for entry in entries() {
        println!("{:<18} --placement {names}", entry.name);
    }
    println!("\nthe standard allocator (system) is {STANDARD_ALLOCATOR} in this build");
}
