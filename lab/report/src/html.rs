//! The report as one page.
//!
//! The page holds all it needs: style, plots and tables. Its content policy forbids scripts and
//! any request, so that it can be opened from a disk, mailed and archived, and shows the same in
//! ten years. Tables that are wider than the screen scroll by themselves, never the page.

use std::fmt::Write;

use crate::arrange::Role;
use crate::document::{Document, Section, Standing, command, facts, run_numbers, standing};
use crate::escape::{prose, xml};
use crate::finding::{Overview, Spread};
use crate::layout;
use crate::number;
use crate::plot::Plot;
use crate::svg::strip::{axis_end, strip};
use crate::svg::{self, STYLE};
use crate::table::{Cell, Content, Table, bands};

const PAGE_STYLE: &str = include_str!("page.css");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Renders a report.
pub(crate) fn render(document: &Document<'_>) -> String {
    let mut body = top(document);
    body += "<main>\n";
    body += &summary(document);
    body += &machines(document);
    body += &contenders(document);
    for section in &document.sections {
        body += &experiment(section, document.runs.len() > 1);
    }
    body += "<footer class=\"note\"><p>Written by <code>hedgerow-lab report</code> from results \
             files of JSON lines. The same tables are in <code>report.md</code>; each plot is an \
             SVG file beside this page.</p></footer>\n</main>\n";
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Hedgerow’s lab: measurements of {}</title>\n\
         <style>\n{PAGE_STYLE}{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        xml(&document.days())
    )
}

fn top(document: &Document<'_>) -> String {
    let mut text = format!(
        "<header class=\"top\">\n<p class=\"eyebrow\">Hedgerow’s lab</p>\n\
         <h1>Hedgerow measured beside its peers</h1>\n<p class=\"lede\">{}</p>\n",
        xml(&document.extent())
    );
    for (machine, _) in &document.machines {
        let known: Vec<String> = facts(machine)
            .into_iter()
            .filter(|(what, _)| !matches!(*what, "SIMD" | "Transparent superpages"))
            .map(|(what, which)| match what {
                "Processors usable" => format!("{which} processors"),
                "Last-level cache" => format!("{which} last-level cache"),
                "Kernel" => format!("Linux {which}"),
                "Standard allocator" => format!("allocator {which}"),
                "Hedgerow's commit" => format!("commit {which}"),
                _ => which,
            })
            .collect();
        let _ = writeln!(text, "<p class=\"note\">{}</p>", xml(&known.join(" · ")));
    }
    text += "<nav aria-label=\"Contents\">\n<h2>Contents</h2>\n<ol>\n\
             <li><a href=\"#summary\">Summary</a></li>\n\
             <li><a href=\"#machine\">Machine</a></li>\n\
             <li><a href=\"#contenders\">Contenders</a></li>\n";
    for section in &document.sections {
        let name = &section.arrangement.results.about.name;
        let _ = writeln!(
            text,
            "<li><a href=\"#x-{}\">{}</a> <code>{}</code></li>",
            section.id,
            xml(section.title()),
            xml(name)
        );
    }
    text + "</ol>\n</nav>\n</header>\n"
}

fn summary(document: &Document<'_>) -> String {
    let mut text = String::from(
        "<section id=\"summary\">\n<h2>Summary</h2>\n\
         <p>The best of ours against the best peer, by medians. A place is a set of parameters, \
         a column and a position; above ×1 ours is ahead. The strip runs from the worst place to \
         the best, with a dot at the median, on one logarithmic axis for all experiments.</p>\n\
         <div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Summary\">\n\
         <table class=\"strips\">\n<thead><tr><th>Experiment</th><th class=\"text\">Source</th>\
         <th>Ours ahead in</th><th>Median<small>worst–best</small></th>\
         <th>",
    );
    let verdicts = document
        .sections
        .iter()
        .filter_map(|s| s.finding.verdict.as_ref());
    let axis_end = axis_end(verdicts.map(|verdict| verdict.gains));
    let _ = write!(
        text,
        "<small>{} to {}</small></th></tr></thead>\n<tbody>\n",
        number::ratio(1.0 / axis_end),
        number::ratio(axis_end)
    );
    for section in &document.sections {
        let about = &section.arrangement.results.about;
        let (ahead, gain) = standing(&section.finding);
        let gain = match gain.split_once(" (") {
            Some((median, spread)) => {
                format!("{median}<small>{}</small>", spread.trim_end_matches(')'))
            }
            None => gain,
        };
        let verdict = section.finding.verdict.as_ref();
        let drawn = verdict.map(|verdict| strip(verdict.gains, axis_end));
        let _ = writeln!(
            text,
            "<tr><th><a href=\"#x-{}\">{}</a></th><td class=\"text\">{}</td><td>{ahead}</td>\
             <td>{gain}</td><td>{}</td></tr>",
            section.id,
            xml(section.title()),
            xml(&about.source),
            drawn.unwrap_or_default()
        );
    }
    text += "</tbody>\n</table>\n</div>\n";
    text += "<p class=\"note\">In all tables: the median of the rounds; behind × the median over \
             rounds of the ratio to the baseline in the same round; below, the smallest and the \
             largest round. The best median of a column is bold. ↑ more is better, ↓ less is \
             better. A contender that gave wrong answers shows its errors and no figure.</p>\n";
    text + "</section>\n"
}

fn machines(document: &Document<'_>) -> String {
    let mut text =
        String::from("<section id=\"machine\">\n<h2>Machine</h2>\n<div class=\"machines\">\n");
    for (machine, runs) in &document.machines {
        text += "<div>\n";
        if document.machines.len() > 1 {
            let _ = writeln!(text, "<h3>Of {}</h3>", run_numbers(runs));
        }
        text += "<dl>\n";
        for (what, which) in facts(machine) {
            let _ = writeln!(text, "<dt>{}</dt><dd>{}</dd>", xml(what), xml(&which));
        }
        text += "</dl>\n</div>\n";
    }
    text + "</div>\n</section>\n"
}

fn contenders(document: &Document<'_>) -> String {
    let mut text = String::from(
        "<section id=\"contenders\">\n<h2>Contenders</h2>\n\
         <div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Contenders\">\n\
         <table>\n<thead><tr><th>Contender</th><th class=\"text\">Version</th>\
         <th class=\"text\">Origin</th><th class=\"text\"></th></tr></thead>\n<tbody>\n",
    );
    for listed in &document.contenders {
        let participant = listed.participant;
        let role = Role::of(&participant.name, std::slice::from_ref(participant));
        let class = if role == Role::Ours {
            " class=\"ours\""
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "<tr><th{class}>{}</th><td class=\"text\">{}</td><td class=\"text\">{}</td>\
             <td class=\"text\">{}</td></tr>",
            xml(&participant.name),
            xml(&participant.version),
            xml(&participant.origin),
            match listed.standing {
                Standing::Measured => "measured",
                Standing::Skipped => "skipped",
                Standing::Idle => "not asked",
            }
        );
    }
    text + "</tbody>\n</table>\n</div>\n</section>\n"
}

fn experiment(section: &Section<'_>, several_runs: bool) -> String {
    let about = &section.arrangement.results.about;
    let mut line = format!("<code>{}</code>", xml(&about.name));
    if several_runs {
        let _ = write!(line, " · run {}", section.run_number);
    }
    let scale = xml(&section.run.scale);
    let _ = write!(
        line,
        " · {} · scale {scale}",
        number::moment(section.run.started)
    );
    if !section.arrangement.shared.is_empty() {
        let _ = write!(line, " · {}", xml(&section.arrangement.shared));
    }
    let source = if about.source.is_empty() {
        "The source"
    } else {
        &about.source
    };
    let sentences: Vec<String> = section
        .finding
        .sentences
        .iter()
        .map(|sentence| format!("<p>{}</p>", prose(sentence)))
        .collect();
    let mut text = format!(
        "<section id=\"x-{}\" data-experiment=\"{}\">\n<p class=\"eyebrow\">{line}</p>\n\
         <h2>{}</h2>\n<div class=\"beside\">\n<div><h3>{}</h3><p>{}</p>{}</div>\n\
         <div class=\"here\"><h3>Measured here</h3>{}</div>\n</div>\n",
        section.id,
        xml(&about.name),
        xml(section.title()),
        xml(source),
        prose(&about.claim),
        about.here.as_ref().map_or_else(String::new, |here| format!(
            "<h3>What can show here</h3><p>{}</p>",
            prose(here)
        )),
        sentences.concat()
    );
    if let Some(all) = &section.finding.overview {
        text += &overview(all, &about.baseline);
    }
    for plot in &section.plots {
        text += &figure(plot);
    }
    for (i, each) in section.tables.iter().enumerate() {
        let title = if each.caption.is_empty() {
            section.title()
        } else {
            &each.caption
        };
        text += &table(each, title, i == 0 || !each.caption.is_empty());
    }
    text += &layout::html(&section.layouts);
    text += &absent(&section.absent);
    let _ = write!(
        text,
        "<h3>To repeat it</h3>\n<pre>{}</pre>\n</section>\n",
        xml(&command(section.run))
    );
    text
}

/// Everyone's ratios to the baseline.
fn overview(overview: &Overview<'_>, baseline: &str) -> String {
    let title = format!("All places together: ratio to {baseline}");
    let mut text = String::new();
    let places: Vec<usize> = (0..overview.columns.len()).collect();
    for band in bands(&places) {
        let _ = write!(
            text,
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{0}\">\n<table>\n\
             <caption>{0}</caption>\n<thead><tr><th>Contender</th>",
            xml(&title)
        );
        for &place in band {
            let column = &overview.columns[place];
            let (name, arrow) = (xml(column.name), column.arrow());
            let _ = write!(text, "<th scope=\"col\">{name}<small>{arrow}</small></th>");
        }
        text += "</tr></thead>\n<tbody>\n";
        for (contender, cells) in &overview.rows {
            let class = if contender.role == Role::Ours {
                " class=\"ours\""
            } else {
                ""
            };
            let _ = write!(
                text,
                "<tr><th scope=\"row\"{class}>{}</th>",
                xml(contender.name)
            );
            text.extend(band.iter().map(|&place| spread(cells[place])));
            text += "</tr>\n";
        }
        text += "</tbody>\n</table>\n</div>\n";
    }
    text
}

fn spread(spread: Option<Spread>) -> String {
    match spread {
        None => "<td>–</td>".to_owned(),
        Some(Spread {
            least,
            median,
            most,
        }) if least < most => format!(
            "<td>{}<small>{}–{}</small></td>",
            number::ratio(median),
            number::ratio(least),
            number::ratio(most)
        ),
        Some(Spread { median, .. }) => format!("<td>{}</td>", number::ratio(median)),
    }
}

fn figure(plot: &Plot<'_>) -> String {
    let mut text = format!(
        "<figure id=\"f-{}\">\n<h3>{}</h3>\n",
        plot.slug,
        xml(&plot.title)
    );
    let alone = if plot.panels.len() == 1 { " alone" } else { "" };
    let mut narrow = "";
    if svg::labels_at_ends(plot) {
        // On a narrow screen a legend leaves more room for the lines than labels do.
        let panels = svg::panels(plot, true).concat();
        let _ = writeln!(text, "<div class=\"panels alone wide\">\n{panels}</div>");
        narrow = " class=\"narrow\"";
    }
    let _ = write!(text, "<div{narrow}>\n{}", legend(plot));
    let kind = if plot.axis.is_none() { " bars" } else { "" };
    let panels = svg::panels(plot, false).concat();
    let _ = writeln!(
        text,
        "<div class=\"panels{alone}{kind}\">\n{panels}</div>\n</div>"
    );
    let _ = write!(
        text,
        "<figcaption>{}</figcaption>\n</figure>\n",
        xml(&svg::reading(plot))
    );
    text
}

fn legend(plot: &Plot<'_>) -> String {
    let entries = svg::legend(plot);
    if entries.is_empty() {
        return String::new();
    }
    let mut text = String::from("<ul class=\"legend\">\n");
    for svg::LegendEntry { name, ours, swatch } in entries {
        let class = if ours { " class=\"ours\"" } else { "" };
        let _ = writeln!(text, "<li>{swatch}<span{class}>{}</span></li>", xml(name));
    }
    text + "</ul>\n"
}

fn table(table: &Table<'_>, title: &str, captioned: bool) -> String {
    let mut text = format!(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">\n<table>\n",
        xml(title)
    );
    if captioned {
        let _ = writeln!(text, "<caption>{}</caption>", xml(title));
    }
    text += "<thead><tr><th>Contender</th>";
    for heading in &table.columns {
        let _ = write!(
            text,
            "<th scope=\"col\">{}<small>{}</small></th>",
            xml(&heading.title),
            xml(&heading.unit)
        );
    }
    text += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        let class = if row.contender.role == Role::Ours {
            " class=\"ours\""
        } else {
            ""
        };
        let baseline = if row.contender.baseline {
            "<small>baseline</small>"
        } else {
            ""
        };
        let _ = write!(
            text,
            "<tr><th scope=\"row\"{class}>{}{baseline}</th>",
            xml(row.contender.name)
        );
        match &row.content {
            Content::Cells(cells) => text.extend(cells.iter().map(cell)),
            Content::Skipped(why) => {
                let span = table.columns.len().max(1);
                let _ = write!(
                    text,
                    "<td class=\"why\" colspan=\"{span}\">skipped: {}</td>",
                    prose(why)
                );
            }
        }
        text += "</tr>\n";
    }
    text + "</tbody>\n</table>\n</div>\n"
}

/// Who did not take part, and why.
fn absent(absent: &[(String, Vec<&str>)]) -> String {
    if absent.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Skipped\">\n<table>\n\
         <caption>Skipped</caption>\n<thead><tr><th>Contender</th><th class=\"text\">Why</th>\
         </tr></thead>\n<tbody>\n",
    );
    for (why, names) in absent {
        let names = xml(&names.join(", "));
        let why = prose(why);
        let _ = writeln!(
            text,
            "<tr><th>{names}</th><td class=\"why\">{why}</td></tr>"
        );
    }
    text + "</tbody>\n</table>\n</div>\n"
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Missing => "<td>–</td>".to_owned(),
        Cell::Errors(errors) => {
            let plural = if *errors == 1 { "" } else { "s" };
            let count = number::plain(*errors as f64);
            format!("<td class=\"errors\">{count} error{plural}</td>")
        }
        Cell::Measured {
            median,
            range,
            ratio,
            best,
        } => {
            let class = if *best { " class=\"best\"" } else { "" };
            let mut text = format!(
                "<td{class}><span class=\"v\">{}</span>",
                number::figure(*median)
            );
            if let Some(ratio) = ratio {
                let _ = write!(text, "<span class=\"r\">{}</span>", number::ratio(*ratio));
            }
            if let Some((min, max)) = range {
                let (min, max) = (number::figure(*min), number::figure(*max));
                let _ = write!(text, "<small>{min}–{max}</small>");
            }
            text + "</td>"
        }
    }
}
