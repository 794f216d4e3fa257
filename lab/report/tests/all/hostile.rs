//! Reports on results that nobody would want.
//!
//! Names that try to be markup, one point, nothing but zeros, figures without a median, a dozen
//! series, numbers at both ends of what a float can hold: each must give a report that is well
//! formed, keeps all text apart from markup, and draws nothing outside its page.

use hedgerow_lab_report::{Results, read, render};
use serde_json::{Value, json};

const HOSTILE: &str = "<script>alert(\"1\")</script>|`*'&\n]](x)";

fn results(x_label: Option<&str>, x_log: bool, name: &str, lines: &[Value]) -> Results {
    let run = json!({
        "kind": "run", "schema": 2, "command": format!("hedgerow-lab run {name}"), "started": 0,
        "scale": name, "contenders": [{"name": name, "version": name, "origin": name}],
        "machine": {"cpu": name, "cores": 2, "simd": [name], "last_cache": name,
            "memory_gib": 0, "kernel": name, "superpages": name, "commit": name},
    });
    let experiment = json!({
        "kind": "experiment", "name": name, "title": name, "source": name, "claim": name,
        "x_label": x_label, "x_log": x_log, "baseline": name,
    });
    let lines: Vec<String> = [run, experiment]
        .iter()
        .chain(lines)
        .map(Value::to_string)
        .collect();
    read("hostile.json", lines.join("\n").as_bytes()).expect("readable")
}

fn figure(name: &str, contender: &str, x: Value, values: &[f64]) -> Value {
    let fold = |f: fn(f64, f64) -> f64| values.iter().copied().reduce(f);
    json!({
        "kind": "figure", "experiment": name, "parameters": {"set": name}, "x": x,
        "contender": contender, "column": name, "unit": name, "better": "higher",
        "median": values.get(values.len() / 2), "min": fold(f64::min), "max": fold(f64::max),
        "rounds": values, "ratio": values.first(), "errors": 0,
    })
}

/// Panics unless every element is closed, in order, and only known elements are there.
fn well_formed(name: &str, text: &str) {
    const EMPTY: [&str; 1] = ["meta"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text.trim_start_matches("<!DOCTYPE html>");
    while let Some(from) = rest.find('<') {
        let end = from
            + rest[from..]
                .find('>')
                .unwrap_or_else(|| panic!("{name}: an open tag"));
        let tag = &rest[from + 1..end];
        let word = tag.trim_start_matches('/');
        let word = word.split([' ', '\n', '/']).next().unwrap_or_default();
        assert!(
            !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric()),
            "{name}: <{tag}>"
        );
        assert_ne!(word, "script", "{name}");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(word), "{name}: {}", &rest[..end]);
        } else if !tag.ends_with('/') && !EMPTY.contains(&word) {
            open.push(word);
        }
        rest = &rest[end + 1..];
        assert!(
            rest.find('>')
                .is_none_or(|close| rest.find('<').is_some_and(|o| o < close)
                    || open.last() == Some(&"style")),
            "{name}: a bare > in {}",
            &rest[..60.min(rest.len())]
        );
    }
    assert!(open.is_empty(), "{name}: {open:?}");
}

/// The numbers behind `attribute="` anywhere in `text`.
fn numbers<'a>(text: &'a str, attribute: &'a str) -> impl Iterator<Item = f64> + 'a {
    let pattern = format!(" {attribute}=\"");
    let values: Vec<f64> = text
        .split(pattern.as_str())
        .skip(1)
        .filter_map(|rest| rest.split('"').next()?.parse().ok())
        .collect();
    values.into_iter()
}

fn check(results: &Results) -> Vec<(String, String)> {
    let files = render(results);
    for (name, text) in &files {
        assert!(!text.contains("NaN") && !text.contains("inf\""), "{name}");
        if name.ends_with(".md") {
            continue;
        }
        well_formed(name, text);
        if name.ends_with(".svg") {
            let width = numbers(text, "width").next().expect("a width");
            let height = numbers(text, "height").next().expect("a height");
            assert!(
                width < 1200.0 && height < 4000.0,
                "{name}: {width} × {height}"
            );
            assert!(
                numbers(text, "x").all(|x| (-0.1..=width).contains(&x)),
                "{name}"
            );
            assert!(
                numbers(text, "y").all(|y| (-0.1..=height).contains(&y)),
                "{name}"
            );
            assert!(
                numbers(text, "width").all(|w| (0.0..=width).contains(&w)),
                "{name}"
            );
        }
    }
    files
}

#[test]
fn names_stay_text() {
    for x in [json!(null), json!(1), json!(HOSTILE)] {
        let mut lines = vec![figure(HOSTILE, HOSTILE, x.clone(), &[1.0, 2.0, 3.0])];
        lines.push(figure(HOSTILE, "other", x, &[1.0]));
        lines.push(
            json!({"kind": "skipped", "experiment": HOSTILE, "contender": "</td>",
            "why": HOSTILE}),
        );
        let files = check(&results(Some(HOSTILE), false, HOSTILE, &lines));
        for (name, text) in files {
            let file_is_plain = name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
            assert!(file_is_plain, "{name}");
            assert!(name.ends_with(".md") || !text.contains("<script"), "{name}");
            if name.ends_with(".md") {
                // Only as code, where it means nothing.
                let (before, _) = text.split_once("To repeat it").expect("a command");
                let plain = before.replace("\\`", "");
                let outside: String = plain.split('`').step_by(2).collect();
                assert!(!outside.contains("<script"), "{outside}");
                let tables = text.lines().filter(|line| line.starts_with('|'));
                assert!(tables.clone().count() > 4);
                assert!(tables.into_iter().all(|line| line.ends_with('|')), "{text}");
            }
        }
    }
}

#[test]
fn extreme_numbers_stay_on_the_page() {
    let series: [&[f64]; 8] = [
        &[0.0],
        &[0.0, 0.0, 0.0],
        &[1e308, 1.7e308, 1e307],
        &[1e-308, 5e-324, 1e-300],
        &[-1e308, 0.0, 1e308],
        &[-3.0, -2.0, -1.0],
        &[1e-300, 1.0, 1e300],
        &[],
    ];
    for values in series {
        for (log, xs) in [
            (false, [0.0, 0.0]),
            (true, [0.0, 1e300]),
            (true, [-5.0, 1e-300]),
        ] {
            let lines = [
                figure("e", "a", json!(xs[0]), values),
                figure("e", "b", json!(1.0), values),
                figure("e", "c", json!(xs[1] + 2.0), &[1.0, 2.0]),
            ];
            check(&results(Some("x"), log, "e", &lines));
            check(&results(Some("x"), log, "e", &lines[..1]));
        }
        let lines = [
            figure("e", "a", json!(null), values),
            figure("e", "b", json!(null), &[1.0, 2.0, 5.0]),
        ];
        check(&results(None, false, "e", &lines));
        check(&results(None, false, "e", &lines[..1]));
    }
}

#[test]
fn no_figures_at_all_is_still_a_report() {
    let files = check(&results(None, false, "e", &[]));
    assert_eq!(files.len(), 2);
    assert!(files[0].1.contains("Nothing was measured."));
    let skipped = json!({"kind": "skipped", "experiment": "e", "contender": "a", "why": "gone"});
    let files = check(&results(None, false, "e", &[skipped]));
    assert!(files.iter().all(|(_, text)| text.contains("gone")));
}

#[test]
fn many_series_have_different_markers_and_labels_apart() {
    for count in [3, 12, 14, 30] {
        let mut lines = Vec::new();
        for i in 0..count {
            for x in [1, 2, 4] {
                // All end within a few pixels of each other.
                let value = 100.0 + f64::from(i) * 0.01;
                lines.push(figure(
                    "e",
                    &format!("contender number {i}"),
                    json!(x),
                    &[value],
                ));
            }
        }
        let files = check(&results(Some("threads"), true, "e", &lines));
        let (_, plot) = files
            .iter()
            .find(|(name, _)| name.ends_with(".svg"))
            .expect("a plot");
        let labels = plot
            .lines()
            .filter(|line| line.starts_with("<text") && line.contains("contender number"));
        let mut places: Vec<(i64, i64)> = labels
            .map(|line| {
                let x = numbers(line, "x").next().expect("x");
                let y = numbers(line, "y").next().expect("y");
                (x as i64, y as i64)
            })
            .collect();
        assert_eq!(places.len(), count as usize);
        places.sort_unstable();
        for pair in places.windows(2) {
            let apart = pair[0].0 != pair[1].0 || pair[1].1 - pair[0].1 >= 14;
            assert!(apart, "{count} series: {pair:?}");
        }
    }
}

#[test]
fn tables_turn_to_their_shorter_side() {
    let column = |name: &str, x: &str| {
        let mut line = figure("e", "a", json!(x), &[1.0, 2.0, 3.0]);
        line["column"] = json!(name);
        line
    };
    let names = ["insert", "get", "remove"];
    let lines: Vec<Value> = ["dense", "sparse"]
        .iter()
        .flat_map(|x| names.map(|name| column(name, x)))
        .collect();
    let text = |lines: &[Value]| {
        check(&results(Some("keys"), false, "e", lines))[1]
            .1
            .clone()
    };
    let many_columns = text(&lines);
    assert!(many_columns.contains("\nkeys dense\n"), "{many_columns}");
    assert!(many_columns.contains("| contender | insert, e ↑ | get, e ↑ | remove, e ↑ |"));
    let many_positions = text(&[lines[0].clone(), lines[3].clone()]);
    assert!(
        many_positions.contains("| contender | dense | sparse |"),
        "{many_positions}"
    );
}
