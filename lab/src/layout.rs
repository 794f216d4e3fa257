//! `hedgerow-lab layout`: loads a tree and shows how its nodes lie in memory.

use std::fs;
use std::path::PathBuf;

use hedgerow_lab_layout::{Between, LayoutEntry, Load, entries, page};
use hedgerow_memory::Placement;
use hedgerow_memory::layout::Inspector;

use crate::{LabError, Result};

/// The standard allocator of this build.
pub const STANDARD_ALLOCATOR: &str = if cfg!(feature = "jemalloc") {
    "jemalloc"
} else if cfg!(feature = "mimalloc") {
    "mimalloc"
} else {
    "the system's"
};

/// Where nodes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Allocator {
    /// A pool of its own for each kind of nodes.
    Ours,
    /// Our size classes, nodes among everything else of their size.
    Merged,
    /// The standard allocator of this build: the system's, or with the feature `jemalloc` or
    /// `mimalloc` that one.
    System,
}

/// What is allocated between insertions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Beside {
    /// Nothing.
    Nothing,
    /// A block of a random size.
    Random,
    /// Row, data, wrapper, lock and value of a YCSB record.
    Rows,
}

/// How the nodes of a tree lie in memory.
#[derive(Debug, clap::Args)]
pub struct LayoutArguments {
    /// The tree, by its name; without one, all names are listed.
    tree: Option<String>,
    /// Where its nodes come from.
    #[arg(long, value_enum, default_value = "ours")]
    allocator: Allocator,
    /// How many random keys it has.
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,
    /// What is allocated between insertions.
    #[arg(long, value_enum, default_value = "nothing")]
    beside: Beside,
    /// Allocate 32 bytes before the tree, from the same place.
    #[arg(long)]
    shifted: bool,
    /// Write a page with tables and pictures, layout.html, into this folder.
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
    let load = Load {
        keys: arguments.keys,
        placement: match arguments.allocator {
            Allocator::Ours => Placement::Segregated,
            Allocator::Merged => Placement::Merged,
            Allocator::System => Placement::System,
        },
        between: match arguments.beside {
            Beside::Nothing => Between::Nothing,
            Beside::Random => Between::Random,
            Beside::Rows => Between::Rows,
        },
        shifted: arguments.shifted,
    };
    let title = title(arguments, entry);
    let layout = Inspector::of_this_machine().layout_of(&load.run(entry));
    println!("{title}\n\n{layout}");
    if let Some(folder) = &arguments.out {
        fs::create_dir_all(folder).map_err(LabError::Io)?;
        let file = folder.join("layout.html");
        fs::write(&file, page(&title, &layout)).map_err(LabError::Io)?;
        println!("{}", file.display());
    }
    Ok(())
}

fn title(arguments: &LayoutArguments, entry: &LayoutEntry) -> String {
    let place = match (entry.fixed, arguments.allocator) {
        (Some(why), _) => format!("not placed: {why}"),
        (None, Allocator::Ours) => "segregated".to_owned(),
        (None, Allocator::Merged) => "in size classes".to_owned(),
        (None, Allocator::System) => format!("from the standard allocator, {STANDARD_ALLOCATOR}"),
    };
    let beside = match arguments.beside {
        Beside::Nothing => "",
        Beside::Random => ", blocks of random sizes beside them",
        Beside::Rows => ", rows beside them",
    };
    let shifted = if arguments.shifted { ", shifted" } else { "" };
    let (name, keys) = (entry.name, arguments.keys);
    format!("{name}, {keys} keys, nodes {place}{beside}{shifted}")
}

fn list() {
    for entry in entries() {
        match entry.fixed {
            Some(why) => println!("{:<18} always where it is: {why}", entry.name),
            None => println!("{:<18} --allocator ours, merged, system", entry.name),
        }
    }
    println!("\nthe standard allocator (system) is {STANDARD_ALLOCATOR} in this build");
}
