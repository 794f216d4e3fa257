//! Results for the eye: one table per set of parameters, a line per contender and position.

use std::collections::BTreeMap;

use hedgerow_lab_report::{Better, Figure, Skipped, X};

use super::collect::Collected;
use super::plan::Plan;
use hedgerow_lab_own::Empty;

/// The tables of an experiment, the harness's own share, and who is missing.
pub fn render(
    plan: &Plan,
    collected: &Collected,
    figures: &[Figure],
    skipped: &[Skipped],
) -> String {
    let about = &plan.about;
    let mut text = format!(
        "\n{}: {} ({})\n  claim: {}\n  medians of {} rounds (least–most) ×ratio to {}\n",
        about.name, about.title, about.source, about.claim, collected.rounds, about.baseline
    );
    let mut tables: BTreeMap<String, Vec<&Figure>> = BTreeMap::new();
    for figure in figures {
        tables.entry(parameters(figure)).or_default().push(figure);
    }
    for (title, figures) in tables {
        text += &format!("\n{title}\n");
        text += &table(about.x_label, &figures);
        text += &harness(&figures);
    }
    for skipped in skipped {
        text += &format!("skipped: {}: {}\n", skipped.contender, skipped.why);
    }
    text
}

fn parameters(figure: &Figure) -> String {
    let each = figure.parameters.iter();
    let words: Vec<String> = each
        .map(|(name, value)| match value.as_str() {
            Some(text) => format!("{name} {text}"),
            None => format!("{name} {value}"),
        })
        .collect();
    words.join(" · ")
}

fn position(x: Option<&X>) -> String {
    match x {
        Some(X::Number(number)) => number.to_string(),
        Some(X::Category(name)) => name.clone(),
        None => String::new(),
    }
}

fn table(x_label: Option<&str>, figures: &[&Figure]) -> String {
    let mut columns: Vec<(&str, &str)> = Vec::new();
    let mut rows: Vec<(String, &str)> = Vec::new();
    for figure in figures.iter().filter(|f| f.contender != Empty::NAME) {
        let column = (figure.column.as_str(), figure.unit.as_str());
        if !columns.contains(&column) {
            columns.push(column);
        }
        let row = (position(figure.x.as_ref()), figure.contender.as_str());
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let mut head = vec![x_label.unwrap_or("").to_owned(), "contender".to_owned()];
    head.extend(columns.iter().map(|(name, unit)| format!("{name} {unit}")));
    let mut lines = vec![head];
    for (x, contender) in rows {
        let mut line = vec![x.clone(), contender.to_owned()];
        for (column, _) in &columns {
            let found = figures.iter().find(|figure| {
                figure.contender == contender
                    && figure.column == *column
                    && position(figure.x.as_ref()) == x
            });
            line.push(found.map_or_else(|| "-".to_owned(), |figure| cell(figure)));
        }
        lines.push(line);
    }
    if x_label.is_none() {
        lines.iter_mut().for_each(|line| drop(line.remove(0)));
    }
    align(&lines)
}

fn align(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        for (cell, &width) in line.iter().zip(&widths) {
            text += &format!("{cell:<width$}  ");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

fn cell(figure: &Figure) -> String {
    let (Some(median), Some(min), Some(max)) = (figure.median, figure.min, figure.max) else {
        return format!("{} errors", figure.errors);
    };
    let mut cell = short(median);
    if figure.rounds.len() > 1 {
        cell += &format!(" ({}–{})", short(min), short(max));
    }
    if let Some(ratio) = figure.ratio {
        cell += &format!(" ×{ratio:.2}");
    }
    cell
}

fn short(figure: f64) -> String {
    match figure {
        f if f >= 1000.0 => format!("{f:.0}"),
        f if f >= 100.0 => format!("{f:.1}"),
        f => format!("{f:.2}"),
    }
}

/// What the lab's own loop takes of every operation, from the empty contender's figures at the
/// first position.
fn harness(figures: &[&Figure]) -> String {
    let mut seen: Vec<&str> = Vec::new();
    let mut shares = Vec::new();
    for figure in figures.iter().filter(|f| f.contender == Empty::NAME) {
        let Some(median) = figure.median.filter(|median| *median > 0.0) else {
            continue;
        };
        if seen.contains(&figure.column.as_str()) {
            continue;
        }
        seen.push(&figure.column);
        match (figure.unit.as_str(), figure.better) {
            ("Mops/s", _) => shares.push(format!("{} {:.1} ns", figure.column, 1000.0 / median)),
            ("per operation", _) => shares.push(format!("{} {median:.1}", figure.column)),
            ("ns", Better::Lower) => shares.push(format!("{} {median:.0} ns", figure.column)),
            _ => {}
        }
    }
    if shares.is_empty() {
        return String::new();
    }
    format!(
        "of each operation the lab itself takes: {}\n",
        shares.join(", ")
    )
}
