//! Layouts of nodes: read back from results, and shown.

use hedgerow_lab_report::{Inspected, Results, read, render};
use serde_json::{Value, json};

fn inspected() -> Value {
    json!({
        "tables": [{
            "title": "Nodes & links", "note": "by <virtual> addresses",
             "heads": ["parent", "child"],
            "columns": [{"title": "nodes", "unit": ""}, {"title": "same line", "unit": "%"},
                {"title": "fullest", "unit": "×"}],
            "rows": [{"names": ["inner", "leaf"], "figures": [12345, 74.84, 1.02]}],
        }],
        "pages": [{
            "kind": "leaf", "pages": 3, "runs": 2, "dense_percent": 33.3,
            "first_runs": [{"first": 0, "pages": 2}, {"first": 5, "pages": 1}],
        }],
    })
}

fn layout(contender: &str, inspected: &Value) -> Value {
    json!({
        "kind": "layout", "experiment": "demo", "parameters": {"keys": 1000}, "x": "size classes",
        "contender": contender, "inspected": inspected,
    })
}

fn lines(layouts: &[Value]) -> String {
    let run = json!({
        "kind": "run", "schema": 2, "command": "hedgerow-lab run demo", "started": 0,
        "scale": "smoke", "contenders": [],
        "machine": {"cpu": "", "cores": 2, "simd": [], "last_cache": "", "memory_gib": 0,
            "kernel": "", "superpages": "", "commit": ""},
    });
    let experiment = json!({
        "kind": "experiment", "name": "demo", "title": "", "source": "", "claim": "",
        "x_label": null, "x_log": false, "baseline": "ticket",
    });
    let lines = [run, experiment];
    let lines: Vec<String> = lines.iter().chain(layouts).map(Value::to_string).collect();
    lines.join("\n")
}

fn results(layouts: &[Value]) -> Results {
    read("layouts.json", lines(layouts).as_bytes()).expect("readable")
}

#[test]
fn a_report_holds_the_tables_and_pictures_of_each_layout() {
    let results = results(&[
        layout("ticket", &inspected()),
        layout("ext-lf", &inspected()),
    ]);
    assert_eq!(results.runs[0].experiments[0].layouts.len(), 2);
    let files = render(&results);
    let file = |name: &str| files.iter().find(|(known, _)| known == name);
    let (_, markdown) = file("report.md").expect("Markdown");
    for wanted in [
        "#### ticket · size classes · keys 1,000",
        "#### ext-lf · size classes · keys 1,000",
        "| parent | child | nodes | same line | fullest |\n|---|---|---:|---:|---:|\n\
         | inner | leaf | 12,345 | 74.8% | 1.0× |",
        "by &lt;virtual&gt; addresses",
        "(demo-ticket-size-classes-keys-1-000-leaf.svg)",
        "leaf: 3 pages in 2 runs, 1.5 pages each, 33.3% nodes\n",
    ] {
        assert!(markdown.contains(wanted), "{wanted}\n{markdown}");
    }
    let (_, page) = file("report.html").expect("a page");
    for wanted in [
        "<summary>ticket · size classes · keys 1,000</summary>",
        "<caption>Nodes &amp; links</caption>",
        "<td>12,345</td><td>74.8%</td><td>1.0×</td>",
        "by &lt;virtual&gt; addresses",
        "M0 0h5v5h-5zM6 0h5v5h-5zM30 0h5v5h-5z",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    let (_, picture) = file("demo-ticket-size-classes-keys-1-000-leaf.svg").expect("a picture");
    assert!(picture.contains("M30 0h5v5h-5z") && picture.contains("<title id="));
}

#[test]
fn the_terminal_shows_the_same_cells_in_columns() {
    let inspected: Inspected = serde_json::from_value(inspected()).expect("as written");
    assert_eq!(
        inspected.to_string(),
        "Nodes & links\n\
         \x20 parent  child   nodes  same line  fullest\n\
         \x20 inner   leaf   12,345      74.8%     1.0×\n\
         \x20 by <virtual> addresses\n"
    );
}

#[test]
fn the_first_layout_of_a_place_counts() {
    let mut later = inspected();
    later["tables"] = json!([]);
    let results = results(&[layout("ticket", &inspected()), layout("ticket", &later)]);
    let layouts = &results.runs[0].experiments[0].layouts;
    assert_eq!(layouts.len(), 1);
    assert_eq!(layouts[0].inspected.tables.len(), 1);
}

#[test]
fn a_row_with_too_few_cells_is_an_error() {
    let mut short = inspected();
    short["tables"][0]["rows"][0]["figures"] = json!([1]);
    let text = lines(&[layout("ticket", &short)]);
    let error = read("a.json", text.as_bytes()).expect_err("a table with a hole");
    assert_eq!(
        error.to_string(),
        "a.json:3: row 1 of the table `Nodes & links` has not as many cells as the table has \
         columns"
    );
}
