//! Which pages hold the nodes of each kind, as Figures 6 and 7 of "Getting to the Root of
//! Concurrent Binary Search Tree Performance" draw them.

use std::fmt::Write;

use crate::escape::xml;
use crate::inspected::{PageMap, PageRun};
use crate::number;

/// Cells of a row, their width and height in pixels, and rows at most.
const ACROSS: usize = 128;
const CELL: usize = 6;
const MOST_ROWS: usize = 64;

/// A gap of more pages than this is drawn as one of this many.
const MOST_GAP: usize = ACROSS;

/// Pages that a picture has room for, those between runs included.
pub const MOST_PAGES: usize = ACROSS * MOST_ROWS;

impl PageMap {
    /// The map in words.
    pub(crate) fn caption(&self) -> String {
        let drawn = self.first_runs.iter().map(|run| run.pages);
        let drawn = drawn.fold(0, usize::saturating_add);
        let whole = drawn >= self.pages && cells(&self.first_runs).1;
        format!(
            "{}: {} pages in {} runs, {:.1} pages each, {:.1}% nodes{}",
            self.kind,
            number::plain(self.pages as f64),
            number::plain(self.runs as f64),
            self.pages as f64 / self.runs.max(1) as f64,
            self.dense_percent,
            if whole { "" } else { "; the first of them" }
        )
    }

    /// The map as a grid of pages: dark ones hold nodes, light ones lie between them.
    pub(crate) fn picture(&self, id: &str) -> String {
        let (cells, _) = cells(&self.first_runs);
        let rows = cells.len().div_ceil(ACROSS).max(1);
        let (width, height) = (ACROSS * CELL, rows * CELL);
        let mut dark = String::new();
        for (at, _) in cells.iter().enumerate().filter(|(_, page)| **page) {
            let (x, y) = (at % ACROSS * CELL, at / ACROSS * CELL);
            let _ = write!(dark, "M{x} {y}h{side}v{side}h-{side}z", side = CELL - 1);
        }
        let (id, what) = (xml(id), xml(&self.caption()));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"{id}\" \
             viewBox=\"0 0 {width} {height}\" width=\"{width}\">\n\
             <title id=\"{id}\">{what}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#e8e8e4\"/>\n\
             <path fill=\"#1f5f3f\" d=\"{dark}\"/>\n</svg>\n"
        )
    }
}

/// A map as a file of its own.
pub(crate) fn file(map: &PageMap) -> String {
    map.picture("pages")
}

/// Pages with nodes and gaps between them, and whether these are all.
fn cells(runs: &[PageRun]) -> (Vec<bool>, bool) {
    let mut cells = Vec::new();
    let mut end = None;
    for run in runs {
        let gap = end.map_or(0, |end: usize| run.first.saturating_sub(end));
        let light = cells.len() + gap.min(MOST_GAP);
        let dark = light.saturating_add(run.pages);
        cells.resize(light.min(MOST_PAGES), false);
        cells.resize(dark.min(MOST_PAGES), true);
        if dark > MOST_PAGES {
            return (cells, false);
        }
        end = Some(run.first.saturating_add(run.pages));
    }
    (cells, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_more_pages_than_there_can_be_have_a_caption() {
        let run = PageRun {
            first: 0,
            pages: usize::MAX,
        };
        let map = PageMap {
            kind: "leaf".to_owned(),
            pages: usize::MAX,
            runs: 2,
            dense_percent: 1.0,
            first_runs: vec![run, run],
        };
        assert!(map.caption().ends_with("the first of them"));
    }

    #[test]
    fn runs_are_dark_gaps_light_and_long_ones_cut() {
        let run = |first, pages| PageRun { first, pages };
        let (some, whole) = cells(&[run(100, 2), run(105, 1)]);
        assert_eq!(some, [true, true, false, false, false, true]);
        assert!(whole);
        let (some, _) = cells(&[run(100, 1), run(1_000_000, 1)]);
        assert_eq!(some.len(), 2 + MOST_GAP);
        for huge in [9000, usize::MAX] {
            let (some, whole) = cells(&[run(0, huge), run(usize::MAX, huge)]);
            assert_eq!((some.len(), whole), (MOST_PAGES, false));
        }
        assert!(cells(&[]).0.is_empty());
    }
}
