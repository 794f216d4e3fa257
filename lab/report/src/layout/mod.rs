//! Layouts of nodes in reports: tables, and a picture of the pages of each kind of nodes.

mod html;
mod markdown;
mod picture;
mod text;

use crate::escape::unique_slug;
use crate::inspected::Inspected;
use crate::number;
use crate::parameters::describe;
use crate::record::{Layout, X};

pub(crate) use html::html;
pub(crate) use markdown::markdown;
pub use picture::MOST_PAGES;
pub(crate) use picture::file;

/// A layout as a report shows it.
#[derive(Debug)]
pub(crate) struct LayoutPage<'a> {
    /// Its anchor.
    pub id: String,
    /// Who, and where.
    pub title: String,
    /// What was found.
    pub inspected: &'a Inspected,
    /// The names of the pictures' files, in the order of the maps.
    pub slugs: Vec<String>,
}

impl<'a> LayoutPage<'a> {
    /// The page of a layout; `files` are the names that other pictures have.
    pub(crate) fn of(layout: &'a Layout, files: &mut Vec<String>) -> Self {
        let mut words = vec![layout.contender.clone()];
        match &layout.x {
            Some(X::Category(name)) => words.push(name.clone()),
            Some(X::Number(number)) => words.push(number::plain(*number)),
            None => {}
        }
        if !layout.parameters.is_empty() {
            words.push(describe(layout.parameters.iter()));
        }
        let title = words.join(" · ");
        let id = unique_slug(&format!("{} {title}", layout.experiment), files);
        let maps = layout.inspected.pages.iter();
        let slugs = maps.map(|map| unique_slug(&format!("{id} {}", map.kind), files));
        Self {
            slugs: slugs.collect(),
            id,
            title,
            inspected: &layout.inspected,
        }
    }
}
