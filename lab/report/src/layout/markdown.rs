//! Layouts in Markdown; pictures are links to files beside it.

use std::fmt::Write;

use super::LayoutPage;
use crate::escape;
use crate::inspected::LayoutTable;

/// All layouts of an experiment.
pub(crate) fn markdown(pages: &[LayoutPage<'_>]) -> String {
    if pages.is_empty() {
        return String::new();
    }
    let mut text = String::from("### How nodes lie in memory\n\n");
    for page in pages {
        let _ = writeln!(text, "#### {}\n", escape::markdown(&page.title));
        text.extend(page.inspected.tables.iter().map(table));
        for (map, slug) in page.inspected.pages.iter().zip(&page.slugs) {
            let what = escape::markdown(&map.caption());
            let _ = writeln!(text, "![{what}]({slug}.svg)\n\n{what}\n");
        }
    }
    text
}

fn table(table: &LayoutTable) -> String {
    let mut text = format!("{}\n\n|", escape::markdown(&table.title));
    let columns = table.columns.iter().map(|column| &column.title);
    for heading in table.heads.iter().chain(columns) {
        let _ = write!(text, " {} |", escape::markdown(heading));
    }
    text += "\n|";
    text += &"---|".repeat(table.heads.len());
    text += &"---:|".repeat(table.columns.len());
    text.push('\n');
    for (nth, row) in table.rows.iter().enumerate() {
        text.push('|');
        for name in &row.names {
            let _ = write!(text, " {} |", escape::markdown(name));
        }
        for column in 0..row.figures.len() {
            let _ = write!(text, " {} |", escape::markdown(&table.cell(nth, column)));
        }
        text.push('\n');
    }
    if let Some(note) = &table.note {
        let _ = write!(text, "\n{}\n", escape::markdown(note));
    }
    text + "\n"
}
