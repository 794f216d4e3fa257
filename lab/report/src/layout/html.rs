//! Layouts on the page: each folded, as an experiment may have dozens.

use std::fmt::Write;

use super::LayoutPage;
use crate::escape::xml;
use crate::inspected::LayoutTable;

/// All layouts of an experiment.
pub(crate) fn html(pages: &[LayoutPage<'_>]) -> String {
    if pages.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<h3>How nodes lie in memory</h3>\n<p class=\"note\">In pictures, dark cells are pages of \
         4 KiB that hold nodes, in the order of their addresses; light ones lie between them and \
         hold none. Long gaps are cut.</p>\n",
    );
    for page in pages {
        let _ = writeln!(
            text,
            "<details class=\"layout\" id=\"l-{}\">\n<summary>{}</summary>",
            page.id,
            xml(&page.title)
        );
        text.extend(page.inspected.tables.iter().map(table));
        text += "<div class=\"pages\">\n";
        for (map, slug) in page.inspected.pages.iter().zip(&page.slugs) {
            let _ = writeln!(
                text,
                "<figure>\n{}<figcaption>{}</figcaption>\n</figure>",
                map.picture(&format!("p-{slug}")),
                xml(&map.caption())
            );
        }
        text += "</div>\n</details>\n";
    }
    text
}

fn table(table: &LayoutTable) -> String {
    let title = xml(&table.title);
    let mut text = format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{title}\">\n<table>\n\
         <caption>{title}</caption>\n<thead><tr>"
    );
    for heading in &table.heads {
        let _ = write!(
            text,
            "<th scope=\"col\" class=\"text\">{}</th>",
            xml(heading)
        );
    }
    for column in &table.columns {
        let _ = write!(text, "<th scope=\"col\">{}</th>", xml(&column.title));
    }
    text += "</tr></thead>\n<tbody>\n";
    for (nth, row) in table.rows.iter().enumerate() {
        text += "<tr>";
        for (at, name) in row.names.iter().enumerate() {
            let _ = match at {
                0 => write!(text, "<th scope=\"row\">{}</th>", xml(name)),
                _ => write!(text, "<td class=\"text\">{}</td>", xml(name)),
            };
        }
        for column in 0..row.figures.len() {
            let _ = write!(text, "<td>{}</td>", xml(&table.cell(nth, column)));
        }
        text += "</tr>\n";
    }
    text += "</tbody>\n</table>\n</div>\n";
    if let Some(note) = &table.note {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", xml(note));
    }
    text
}
