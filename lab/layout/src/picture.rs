//! Which pages hold the nodes of each kind, as Figures 6 and 7 draw them.

use std::fmt::Write as _;

use hedgerow_memory::layout::{KindLayout, Layout, PageRun};

/// Pages of a row, their width and height in pixels, and rows at most.
const ACROSS: usize = 128;
const CELL: usize = 6;
const MOST_ROWS: usize = 64;

/// A gap of more pages than this is drawn as one of this many.
const MOST_GAP: usize = ACROSS;

/// A kind's pages, in the order of their addresses, as a grid: dark cells are pages of 4 KiB that
/// hold nodes, light ones lie between them and hold none. Long gaps are cut, and a grid ends after
/// 8192 cells.
#[must_use]
pub fn picture(kind: &KindLayout) -> String {
    let (cells, whole) = cells(&kind.pages.runs);
    let rows = cells.len().div_ceil(ACROSS).max(1);
    let (width, height) = (ACROSS * CELL, rows * CELL);
    let mut dark = String::new();
    for (at, _) in cells.iter().enumerate().filter(|(_, page)| **page) {
        let (x, y) = (at % ACROSS * CELL, at / ACROSS * CELL);
        let _ = write!(dark, "M{x} {y}h{side}v{side}h-{side}z", side = CELL - 1);
    }
    let what = format!(
        "{}: {} pages in {} runs, {:.1} pages each, {:.0} % nodes{}",
        kind.kind,
        kind.pages.pages,
        kind.pages.runs.len(),
        kind.pages.mean_run(),
        kind.pages.density() * 100.0,
        if whole { "" } else { "; the first of them" },
    );
    format!(
        "<figure><figcaption>{what}</figcaption>\n<svg xmlns=\"http://www.w3.org/2000/svg\" \
         role=\"img\" aria-label=\"{what}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\">\
         <rect width=\"100%\" height=\"100%\" fill=\"#e8e8e4\"/><path fill=\"#1f5f3f\" \
         d=\"{dark}\"/></svg></figure>\n"
    )
}

/// A page on a layout: its tables as text, and a picture of each kind.
#[must_use]
pub fn page(title: &str, layout: &Layout) -> String {
    let title = escape(title);
    let pictures: String = layout.kinds.iter().map(picture).collect();
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\n\
         <style>body{{font-family:sans-serif;margin:2em;max-width:64em}}\
         pre{{overflow:auto}}svg{{max-width:100%}}</style>\n\
         <h1>{title}</h1>\n<pre>{}</pre>\n<h2>Pages</h2>\n\
         <p>Dark: pages of 4 KiB that hold nodes; light: pages between them that hold none.</p>\n\
         {pictures}</html>\n",
        escape(&layout.to_string())
    )
}

/// Text within HTML.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// Pages with nodes and gaps between them, and whether these are all.
fn cells(runs: &[PageRun]) -> (Vec<bool>, bool) {
    let mut cells = Vec::new();
    let mut end = None;
    for run in runs {
        let gap = end.map_or(0, |end: usize| run.first.saturating_sub(end));
        cells.resize(cells.len() + gap.min(MOST_GAP), false);
        cells.resize(cells.len() + run.pages, true);
        end = Some(run.first + run.pages);
        if cells.len() > ACROSS * MOST_ROWS {
            cells.truncate(ACROSS * MOST_ROWS);
            return (cells, false);
        }
    }
    (cells, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_dark_gaps_light_and_long_ones_cut() {
        let run = |first, pages| PageRun { first, pages };
        let (some, whole) = cells(&[run(100, 2), run(105, 1)]);
        assert_eq!(some, [true, true, false, false, false, true]);
        assert!(whole);
        let (some, _) = cells(&[run(100, 1), run(1_000_000, 1)]);
        assert_eq!(some.len(), 2 + MOST_GAP);
        let (some, whole) = cells(&[run(0, 9000)]);
        assert_eq!((some.len(), whole), (ACROSS * MOST_ROWS, false));
        assert!(cells(&[]).0.is_empty());
    }
}
