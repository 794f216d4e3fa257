//! A table as Markdown, with what was measured where.

use hedgerow_lab_report::{Machine, Results, RunResults};

use super::figures::{Picked, pick};
use super::table::{Peers, Row, Table};
use super::tables::PEERS;

/// Where lines of prose are broken.
const COLUMNS: usize = 120;

/// The lines of a table made from the results in `file`.
///
/// # Errors
///
/// A figure that the results lack.
pub fn lines(table: &Table, results: &Results, file: &str) -> Result<String, String> {
    let mut rows = Vec::new();
    for row in table.rows {
        rows.push((row, pick(results, row, table.alone)?));
    }
    let mut text = wrapped(&statement(&rows, file));
    text += &format!(
        "\n| workload | Hedgerow | {} | ratio |\n|---|---|---|---|\n",
        table.peers
    );
    for (row, picked) in &rows {
        text += &cells(table, row, picked);
    }
    Ok(text)
}

fn cells(table: &Table, row: &Row, picked: &Picked<'_>) -> String {
    let (ours, shown) = picked.ours;
    let figure = |median: Option<f64>, unit: &str| {
        let suffix = match unit {
            same if same == table.unit => "",
            "µs" => " µs",
            "s" => " s",
            "MiB" => " MiB",
            _ => "",
        };
        digits(median.unwrap_or_default()) + suffix
    };
    let named = |figure: String, name: &str| match name {
        "" => figure,
        name => format!("{figure} ({name})"),
    };
    let ours = named(figure(ours.median, &ours.unit), shown);
    let peer = picked.peer.map(|peer| {
        let name = match row.peers {
            Peers::Only((_, shown)) => shown.to_owned(),
            Peers::Best => shown_peer(&peer.contender),
        };
        named(figure(peer.median, &peer.unit), &name)
    });
    let ratio = picked.ratio().map(ratio);
    format!(
        "| {} | {ours} | {} | {} |\n",
        row.workload,
        peer.as_deref().unwrap_or("none stayed"),
        ratio.as_deref().unwrap_or("–")
    )
}

/// Each experiment with its keys, rounds and commit, then the machine, then where all rounds are.
fn statement(rows: &[(&Row, Picked<'_>)], file: &str) -> String {
    let mut parts: Vec<(&RunResults, &str)> = Vec::new();
    for (row, picked) in rows {
        let part = (picked.run, row.place.experiment);
        if !parts
            .iter()
            .any(|(run, of)| std::ptr::eq(*run, part.0) && *of == part.1)
        {
            parts.push(part);
        }
    }
    let machines: Vec<&Machine> = parts.iter().map(|(run, _)| &run.run.machine).collect();
    let one = machines
        .iter()
        .all(|other| words(other) == words(machines[0]));
    let sentences = parts.iter().map(|(run, experiment)| {
        let of_part = rows.iter().filter(|(row, picked)| {
            std::ptr::eq(picked.run, *run) && row.place.experiment == *experiment
        });
        let of_part: Vec<&Picked<'_>> = of_part.map(|(_, picked)| picked).collect();
        let mut said = keys(&of_part);
        said.push(rounds(&of_part));
        said.push(match run.run.machine.commit.as_str() {
            "" => "commit unknown".to_owned(),
            commit => format!("commit {commit}"),
        });
        if !one {
            said.push(words(&run.run.machine));
        }
        format!("`{experiment}`: {}.", said.join(", "))
    });
    let mut sentences: Vec<String> = sentences.collect();
    if one {
        sentences.push(format!("Machine: {}.", words(machines[0])));
    }
    sentences.push(format!("All rounds: [{file}]({file})."));
    sentences.join(" ")
}

fn keys(picked: &[&Picked<'_>]) -> Vec<String> {
    for name in ["keys", "records", "connections"] {
        let numbers = picked
            .iter()
            .filter_map(|one| one.ours.0.parameters.get(name)?.as_f64());
        let mut numbers: Vec<f64> = numbers.collect();
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        if !numbers.is_empty() {
            let numbers: Vec<String> = numbers.into_iter().map(grouped).collect();
            return vec![format!("{} {name}", numbers.join(" and "))];
        }
    }
    Vec::new()
}

fn rounds(picked: &[&Picked<'_>]) -> String {
    let counts = || picked.iter().map(|one| one.rounds());
    match (counts().min().unwrap_or(0), counts().max().unwrap_or(0)) {
        (1, 1) => "1 round".to_owned(),
        (least, most) if least == most => format!("{most} rounds"),
        (least, most) => format!("{least} to {most} rounds"),
    }
}

fn words(machine: &Machine) -> String {
    let Machine {
        cpu,
        cores,
        memory_gib,
        ..
    } = machine;
    format!("{cpu}, {cores} cores, {memory_gib} GiB")
}

/// A peer as tables call it: by the longest known beginning of its name.
fn shown_peer(name: &str) -> String {
    let known = PEERS.iter().filter(|(begins, _)| name.starts_with(begins));
    let shown = known.max_by_key(|(begins, _)| begins.len());
    shown.map_or_else(|| name.to_owned(), |(_, shown)| (*shown).to_owned())
}

/// Three digits, below 1 two.
fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.995 => {
            let decimals = 1 - size.log10().floor() as i32;
            format!("{value:.*}", decimals.clamp(2, 6) as usize)
        }
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => grouped(value),
    }
}

/// A whole number with its thousands apart.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A ratio, bold where it is below 1, with as many digits as that takes.
fn ratio(value: f64) -> String {
    let text = match value {
        v if v >= 9.95 => format!("{v:.1}"),
        v if v >= 1.0 || (0.0095..0.99).contains(&v) => format!("{v:.2}"),
        v if v >= 0.0005 || v == 0.0 => format!("{v:.3}"),
        // One digit that says something.
        v => format!("{v:.*}", (-v.log10()).ceil() as usize),
    };
    let text = if text == "1.000" {
        "1.00".to_owned()
    } else {
        text
    };
    match text.parse::<f64>() {
        Ok(shown) if shown < 1.0 => format!("**{text}**"),
        _ => text,
    }
}

/// Prose in lines of at most [`COLUMNS`].
fn wrapped(text: &str) -> String {
    let mut wrapped = String::new();
    let mut columns = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if columns > 0 && columns + 1 + length > COLUMNS {
            wrapped.push('\n');
            columns = 0;
        } else if columns > 0 {
            wrapped.push(' ');
            columns += 1;
        }
        wrapped += word;
        columns += length;
    }
    wrapped + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        for (value, text) in [
            (1_510.2, "1,510"),
            (1_234_567.0, "1,234,567"),
            (465.46, "465"),
            (99.97, "100"),
            (19.927, "19.9"),
            (8.6851, "8.69"),
            (0.95381, "0.95"),
            (0.059298, "0.059"),
            (0.0002006, "0.00020"),
            (0.0, "0"),
        ] {
            assert_eq!(digits(value), text);
        }
    }

    #[test]
    fn ratios_below_1_are_bold() {
        for (value, text) in [
            (10.803, "10.8"),
            (1.2178, "1.22"),
            (1.0004, "1.00"),
            (0.99996, "1.00"),
            (0.9964, "**0.996**"),
            (0.9921, "**0.992**"),
            (0.943, "**0.94**"),
            (0.0034, "**0.003**"),
            (0.000_21, "**0.0002**"),
        ] {
            assert_eq!(ratio(value), text, "{value}");
        }
    }

    #[test]
    fn prose_is_broken_between_words() {
        let text = wrapped(&"word ".repeat(60));
        assert!(text.lines().count() > 2);
        assert!(text.lines().all(|line| line.len() <= COLUMNS));
    }
}
