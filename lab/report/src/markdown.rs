//! The report as Markdown: for terminals, diffs and pages of repositories.

use std::fmt::Write;

use crate::document::{Document, Section, Standing, command, facts, run_numbers, standing};
use crate::escape::{code, fenced, markdown};
use crate::finding::{Overview, Spread};
use crate::layout;
use crate::number;
use crate::table::{Cell, Content, Table};

/// Renders a report; plots are links to files beside it.
pub(crate) fn render(document: &Document<'_>) -> String {
    let mut text = format!("# Hedgerow's lab\n\n{}\n\n", document.extent());
    text += HOW_TO_READ;
    text += &summary(document);
    text += &machines(document);
    text += &contenders(document);
    for section in &document.sections {
        text += &experiment(section, document.runs.len() > 1);
    }
    text
}

const HOW_TO_READ: &str = "Cells show the median of the rounds, in parentheses the smallest and \
the largest, and behind × the median over rounds of the ratio to the baseline in the same round. \
The best median of a column is **bold**. ↑: more is better; ↓: less is better. A contender that \
gave wrong answers shows its errors and no figure.\n\n";

fn summary(document: &Document<'_>) -> String {
    let mut text = String::from(
        "## Summary\n\nThe best of ours against the best peer, by medians, over all places of \
         an experiment: each set of parameters, column and position.\n\n\
         | experiment | source | ours ahead in | median (worst–best) |\n|---|---|---|---|\n",
    );
    for section in &document.sections {
        let about = &section.arrangement.results.about;
        let (ahead, gain) = standing(&section.finding);
        let _ = writeln!(
            text,
            "| {} ({}) | {} | {ahead} | {gain} |",
            markdown(section.title()),
            code(&about.name),
            markdown(&about.source)
        );
    }
    text + "\n"
}

fn machines(document: &Document<'_>) -> String {
    let mut text = String::from("## Machine\n\n");
    for (machine, runs) in &document.machines {
        if document.machines.len() > 1 {
            let _ = writeln!(text, "Of {}:\n", run_numbers(runs));
        }
        for (what, which) in facts(machine) {
            let _ = writeln!(text, "- {what}: {}", markdown(&which));
        }
        text.push('\n');
    }
    text
}

fn contenders(document: &Document<'_>) -> String {
    let mut text =
        String::from("## Contenders\n\n| contender | version | origin | |\n|---|---|---|---|\n");
    for listed in &document.contenders {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} |",
            markdown(&listed.participant.name),
            markdown(&listed.participant.version),
            markdown(&listed.participant.origin),
            match listed.standing {
                Standing::Measured => "measured",
                Standing::Skipped => "skipped",
                Standing::Idle => "not asked",
            }
        );
    }
    text + "\n"
}

fn experiment(section: &Section<'_>, several_runs: bool) -> String {
    let about = &section.arrangement.results.about;
    let mut text = format!("## {}\n\n", markdown(section.title()));
    let mut line = code(&about.name);
    if several_runs {
        let _ = write!(line, " · run {}", section.run_number);
    }
    let scale = markdown(&section.run.scale);
    let _ = write!(
        line,
        " · {} · scale {scale}",
        number::moment(section.run.started)
    );
    if !section.arrangement.shared.is_empty() {
        let _ = write!(line, " · {}", markdown(&section.arrangement.shared));
    }
    let _ = writeln!(text, "{line}\n");
    let _ = writeln!(
        text,
        "**{}:** {}\n",
        source(&about.source),
        markdown(&about.claim)
    );
    if let Some(here) = &about.here {
        let _ = writeln!(text, "**What can show here:** {}\n", markdown(here));
    }
    text += "**Here:** ";
    let sentences: Vec<String> = section
        .finding
        .sentences
        .iter()
        .map(|s| markdown(s))
        .collect();
    text += &sentences.join(" ");
    text += "\n\n";
    if let Some(all) = &section.finding.overview {
        text += &overview(all, &about.baseline);
    }
    for plot in &section.plots {
        let _ = writeln!(text, "![{}]({}.svg)\n", markdown(&plot.title), plot.slug);
    }
    for each in &section.tables {
        text += &table(each, &about.baseline);
    }
    text += &layout::markdown(&section.layouts);
    if !section.absent.is_empty() {
        text += "Skipped:\n\n";
        for (why, names) in &section.absent {
            let _ = writeln!(text, "- {}: {}", markdown(&names.join(", ")), markdown(why));
        }
        text.push('\n');
    }
    text += "To repeat it:\n\n";
    text += &fenced(&command(section.run));
    text + "\n"
}

/// Everyone's ratios to the baseline.
fn overview(overview: &Overview<'_>, baseline: &str) -> String {
    let baseline = markdown(baseline);
    let mut text =
        format!("All places together, ratio to {baseline}: median (least–most)\n\n| contender |");
    for column in &overview.columns {
        let _ = write!(text, " {} {} |", markdown(column.name), column.arrow());
    }
    text += "\n|---|";
    text += &"---:|".repeat(overview.columns.len());
    text.push('\n');
    for (contender, cells) in &overview.rows {
        let _ = write!(text, "| {} |", markdown(contender.name));
        for cell in cells {
            match *cell {
                None => text += " – |",
                Some(Spread {
                    least,
                    median,
                    most,
                }) => {
                    let [least, median, most] = [least, median, most].map(number::ratio);
                    let _ = match least == most {
                        true => write!(text, " {median} |"),
                        false => write!(text, " {median} ({least}–{most}) |"),
                    };
                }
            }
        }
        text.push('\n');
    }
    text + "\n"
}

fn source(source: &str) -> String {
    if source.is_empty() {
        "The source".to_owned()
    } else {
        markdown(source)
    }
}

fn table(table: &Table<'_>, baseline: &str) -> String {
    let mut text = String::new();
    if !table.caption.is_empty() {
        let _ = writeln!(text, "{}\n", markdown(&table.caption));
    }
    text += "| contender |";
    for heading in &table.columns {
        let unit = heading.unit.trim();
        let comma = if unit.is_empty() { "" } else { ", " };
        let _ = write!(
            text,
            " {}{comma}{} |",
            markdown(&heading.title),
            markdown(unit)
        );
    }
    text += "\n|---|";
    text += &"---:|".repeat(table.columns.len());
    text.push('\n');
    for row in &table.rows {
        let name = row.contender.name;
        let mark = if name == baseline { " (baseline)" } else { "" };
        let _ = write!(text, "| {}{mark} |", markdown(name));
        match &row.content {
            Content::Cells(cells) => {
                for each in cells {
                    let _ = write!(text, " {} |", cell(each));
                }
            }
            Content::Skipped(why) => {
                let _ = write!(text, " skipped: {} |", markdown(why));
                text += &" |".repeat(table.columns.len().saturating_sub(1));
            }
        }
        text.push('\n');
    }
    text + "\n"
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Missing => "–".to_owned(),
        Cell::Errors(1) => "1 error".to_owned(),
        Cell::Errors(errors) => format!("{} errors", number::plain(*errors as f64)),
        Cell::Measured {
            median,
            range,
            ratio,
            best,
        } => {
            let stars = if *best { "**" } else { "" };
            let mut text = format!("{stars}{}{stars}", number::figure(*median));
            if let Some((min, max)) = range {
                let _ = write!(text, " ({}–{})", number::figure(*min), number::figure(*max));
            }
            if let Some(ratio) = ratio {
                let _ = write!(text, " {}", number::ratio(*ratio));
            }
            text
        }
    }
}
