//! `hedgerow-lab fetch`: real key sets, obtained by Debian's package clients.

use std::path::Path;

use hedgerow_lab_data::fetch::{FetchError, REAL_SETS, RealSet, cache_folder};

use crate::{LabError, Result};

/// Which real sets to obtain; with none named, they are listed.
#[derive(Debug, clap::Args)]
pub struct FetchArguments {
    /// The sets, such as paths; without any, lists those that there are.
    sets: Vec<String>,
    /// Obtain every set.
    #[arg(long, conflicts_with = "sets")]
    all: bool,
}

/// Obtains or lists real sets.
///
/// # Errors
///
/// When a set is unknown or cannot be obtained.
pub fn run(arguments: &FetchArguments) -> Result<()> {
    let refused = |error: FetchError| LabError::Process(error.to_string());
    let cache = cache_folder().map_err(refused)?;
    let named = |name: &String| RealSet::named(name);
    let sets: Vec<&RealSet> = match arguments.all {
        true => REAL_SETS.iter().collect(),
        false => {
            let sets = arguments
                .sets
                .iter()
                .map(named)
                .collect::<std::result::Result<_, _>>();
            sets.map_err(|error| LabError::Usage(error.to_string()))?
        }
    };
    if sets.is_empty() {
        list(&cache);
        return Ok(());
    }
    for set in sets {
        let mut say = |step: &str| eprintln!("{}: {step}", set.name);
        let fetched = set.fetch(&cache, &mut say).map_err(refused)?;
        let version = fetched
            .version
            .map(|version| format!(", version {version}"));
        println!(
            "fetched:{}: {} keys of {:.1} bytes on average{}, in {}",
            set.name,
            fetched.keys,
            fetched.bytes as f64 / fetched.keys as f64,
            version.unwrap_or_default(),
            fetched.path.display()
        );
    }
    Ok(())
}

fn list(cache: &Path) {
    for set in REAL_SETS {
        let here = match set.path_in(cache).exists() {
            true => "here",
            false => "not here",
        };
        println!("{:<13} {here:<9} {}", set.name, set.what);
        println!("{:23} from {}; terms: {}", "", set.origin, set.licence);
    }
    println!(
        "They are kept in {}; `hedgerow-lab fetch NAME` obtains one.",
        cache.display()
    );
}
