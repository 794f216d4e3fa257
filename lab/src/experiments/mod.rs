//! The experiments, one module each under the name of their source: what is measured, against
//! whom, and why so.

mod bst;
mod btrees;
mod bwtree;
mod layout;
mod masstree;
mod matryoshka;
pub mod scale;
mod tpcc;
mod transactions;

use hedgerow_lab_report as report;

use crate::experiment::{About, Experiment};
use crate::{LabError, Result};

/// All experiments, by source and figure.
#[must_use]
pub fn all() -> Vec<Box<dyn Experiment>> {
    let sources = [
        matryoshka::all(),
        masstree::all(),
        btrees::all(),
        bst::all(),
        bwtree::all(),
        tpcc::all(),
        transactions::all(),
        layout::all(),
        scale::all(),
    ];
    sources.into_iter().flatten().collect()
}

/// The experiment of this name.
///
/// # Errors
///
/// When there is none.
pub fn find(name: &str) -> Result<Box<dyn Experiment>> {
    let mut experiments = all().into_iter();
    experiments
        .find(|experiment| experiment.about().name == name)
        .ok_or_else(|| unknown(name))
}

fn unknown(name: &str) -> LabError {
    LabError::Usage(format!(
        "no experiment is called '{name}' (`hedgerow-lab list` shows them)"
    ))
}

/// The experiments that the names stand for, each once: a name, a source, or `all`.
///
/// # Errors
///
/// A name that stands for none.
pub fn chosen(names: &[String]) -> Result<Vec<Box<dyn Experiment>>> {
    let stands_for = |name: &str, about: &About| {
        let source = about.name.split('/').next();
        name == "all" || name == about.name || source == Some(name.trim_end_matches("/*"))
    };
    let mut experiments = all();
    for name in names {
        let mut abouts = experiments.iter().map(|experiment| experiment.about());
        if !abouts.any(|about| stands_for(name, &about)) {
            return Err(unknown(name));
        }
    }
    experiments.retain(|experiment| {
        let about = experiment.about();
        names.iter().any(|name| stands_for(name, &about))
    });
    Ok(experiments)
}

/// What results say of an experiment.
#[must_use]
pub fn record(about: &About) -> report::Experiment {
    report::Experiment {
        name: about.name.to_owned(),
        title: about.title.to_owned(),
        source: about.source.to_owned(),
        claim: about.claim.to_owned(),
        x_label: about.x_label.map(str::to_owned),
        x_log: about.x_log,
        baseline: about.baseline.to_owned(),
        here: about.here.map(str::to_owned),
        compared_to: about.compared_to.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_name_their_source() {
        let mut names: Vec<_> = all().iter().map(|each| each.about().name).collect();
        assert!(names.iter().all(|name| name.split('/').count() == 2));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_source_stands_for_all_its_experiments() {
        let names = |asked: &str| chosen(&[asked.to_owned()]).map(|chosen| chosen.len());
        assert_eq!(names("masstree/fig10").expect("one"), 1);
        assert!(names("masstree").expect("some") > 1);
        assert_eq!(names("all").expect("all"), all().len());
        assert!(names("masstree/fig99").is_err());
    }
}
