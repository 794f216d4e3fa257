//! The page and the plots in a real browser.
//!
//! Whether text overlaps or a page is too wide for its window only a browser knows. This test
//! opens the report on the fixture in headless Chromium, narrow and wide, light and dark, with
//! `inspect.js` put into it, and reads from the resulting document what that found. Without
//! Chromium (Debian package `chromium`) it prints `skipped: why` and passes. To look for
//! oneself: `SCREENSHOTS=folder cargo test -p hedgerow-lab-report browser`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hedgerow_lab_report::{Results, read, read_files, render};
use serde_json::{Value, json};

const INSPECT: &str = include_str!("inspect.js");
const TIMEOUT: Duration = Duration::from_secs(120);

/// A window to look through.
#[derive(Debug, Clone, Copy)]
struct Window {
    width: u32,
    height: u32,
    dark: bool,
}

const WINDOWS: [Window; 4] = [
    Window::new(400, false),
    Window::new(400, true),
    Window::new(1200, false),
    Window::new(1200, true),
];

impl Window {
    const fn new(width: u32, dark: bool) -> Self {
        let height = 2_000;
        Self {
            width,
            height,
            dark,
        }
    }
}

/// The browser, if there is one.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = [
        "chromium",
        "chromium-browser",
        "google-chrome-stable",
        "google-chrome",
    ];
    let mut candidates =
        std::env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
    candidates.find(|candidate| candidate.is_file())
}

/// Runs the browser on `page` and returns what it prints; an error says why it did not work. A
/// browser that was killed (by the machine, for its memory) gets a second chance.
fn open(
    browser: &Path,
    folder: &Path,
    page: &Path,
    window: Window,
    what: &str,
) -> Result<String, String> {
    let once = || open_once(browser, folder, page, window, what);
    once().or_else(|_| once())
}

fn open_once(
    browser: &Path,
    folder: &Path,
    page: &Path,
    window: Window,
    what: &str,
) -> Result<String, String> {
    let output = folder.join("dom.html");
    let stdout = fs::File::create(&output).map_err(|e| e.to_string())?;
    // 0 is dark and 1 is light.
    let scheme = u8::from(!window.dark);
    let mut child = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
        ])
        .args([
            "--disable-extensions",
            "--no-first-run",
            "--force-device-scale-factor=1",
        ])
        .arg(format!(
            "--user-data-dir={}",
            folder.join("profile").display()
        ))
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!("--window-size={},{}", window.width, window.height))
        .arg(what)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| e.to_string())?;
    let deadline = Instant::now() + TIMEOUT;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|e| e.to_string())? {
            break status;
        }
        if Instant::now() > deadline {
            // It may have ended just now; then there is nothing to kill.
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("no answer within {} s", TIMEOUT.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    if !status.success() {
        return Err(format!("the browser ended early: {status}"));
    }
    fs::read_to_string(&output).map_err(|e| e.to_string())
}

/// A page that shows `inspected.html` in a frame of the wanted width, because a window of the
/// browser is never narrower than 500 pixels, and keeps what that says.
fn frame(window: Window) -> String {
    format!(
        "<!DOCTYPE html><html><head><meta name=\"color-scheme\" content=\"light dark\"></head>\
         <body><script>addEventListener(\"message\", (event) => {{\
         const found = document.createElement(\"pre\"); found.id = \"inspected\";\
         found.textContent = event.data; document.body.append(found); }});</script>\
         <iframe src=\"inspected.html\" style=\"border:0;width:{}px;height:{}px\"></iframe>\
         </body></html>",
        window.width, window.height
    )
}

/// What `inspect.js` found in `html`, seen through `window`.
fn inspect(browser: &Path, folder: &Path, html: &str, window: Window) -> Value {
    let (start, rest) = html.split_once("<head>").expect("a head");
    let rest = rest.replacen(
        "default-src 'none';",
        "default-src 'none'; script-src 'unsafe-inline';",
        1,
    );
    let page = folder.join("inspected.html");
    let instrumented =
        format!("{start}<head><meta charset=\"utf-8\"><script>{INSPECT}</script>{rest}");
    fs::write(&page, instrumented).expect("writable");
    let page = folder.join("frame.html");
    fs::write(&page, frame(window)).expect("writable");
    let dom = open(browser, folder, &page, window, "--dump-dom").expect("a document");
    let found = dom
        .split_once("<pre id=\"inspected\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"));
    let (found, _) = found.unwrap_or_else(|| panic!("the page was not inspected: {}", dom.len()));
    let found = found
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    serde_json::from_str(&found).expect("JSON")
}

/// Takes a picture of `page` and returns its width in pixels.
fn picture(browser: &Path, folder: &Path, page: &Path, window: Window, name: &str) -> u32 {
    let wanted = std::env::var_os("SCREENSHOTS");
    let mut window = window;
    if wanted.is_some() {
        // The whole page; pictures that nobody looks at need only its beginning.
        window.height = 16_000;
    }
    let shots = wanted.map_or(folder.to_owned(), PathBuf::from);
    fs::create_dir_all(&shots).expect("a folder for screenshots");
    let shots = shots.canonicalize().expect("a folder for screenshots");
    let scheme = if window.dark { "dark" } else { "light" };
    let path = shots.join(format!("{name}-{}-{scheme}.png", window.width));
    let what = format!("--screenshot={}", path.display());
    open(browser, folder, page, window, &what).expect("a screenshot");
    let png = fs::read(&path).expect("a screenshot");
    assert!(
        png.len() > 20_000,
        "{}: only {} bytes",
        path.display(),
        png.len()
    );
    // Where a PNG keeps its width.
    u32::from_be_bytes(png[16..20].try_into().expect("4 bytes"))
}

/// A dozen lines that end close together, names that are long or wide, and bars of all sizes.
fn crowded() -> Results {
    let wide = "WWWW @@@@ MMMM %%%% a name as wide as any that one may come across";
    let mut lines = vec![json!({
        "kind": "run", "schema": 2, "command": "x", "started": 0, "scale": wide, "contenders": [
            {"name": "Hedgerow MMMMMMMMMMMMMMMMMMMMMMMMMMMM", "version": "1",
                "origin": "Hedgerow"}],
        "machine": {"cpu": wide, "cores": 2, "simd": [], "last_cache": "", "memory_gib": 1,
            "kernel": "", "superpages": "", "commit": ""},
    })];
    for (name, label) in [("lines", Some(wide)), ("bars", None)] {
        lines.push(
            json!({"kind": "experiment", "name": name, "title": wide, "source": wide,
            "claim": wide, "x_label": label, "x_log": true, "baseline": wide}),
        );
        for i in 0..12 {
            let contender = match i {
                0 => wide.to_owned(),
                1 => "Hedgerow MMMMMMMMMMMMMMMMMMMMMMMMMMMM".to_owned(),
                2 => "W".repeat(200),
                i => format!("contender {i}"),
            };
            let positions: &[Value] = match label {
                Some(_) => &[
                    json!(1),
                    json!(2),
                    json!(3),
                    json!(1_000_000),
                    json!(1_000_003),
                ],
                None => &[json!(null)],
            };
            for x in positions {
                let value = if label.is_some() {
                    100.0 + f64::from(i)
                } else {
                    7_f64.powi(i * 3)
                };
                lines.push(json!({"kind": "figure", "experiment": name, "x": x,
                    "parameters": {"set": wide, "more": wide}, "contender": contender,
                    "column": wide, "unit": wide, "better": "higher", "median": value,
                    "min": value * 0.7, "max": value * 1.2, "rounds": [value, value],
                    "ratio": value, "errors": 0}));
            }
        }
    }
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    read("crowded", lines.join("\n").as_bytes()).expect("readable")
}

/// A page with each fault that the inspection is for.
fn inspection_finds_planted_faults(browser: &Path, folder: &Path) {
    let page = "<!DOCTYPE html><html><head><meta http-equiv=\"Content-Security-Policy\" \
                content=\"default-src 'none'; style-src 'unsafe-inline'\"></head><body>\
                <svg width=\"100\" height=\"50\"><text x=\"0\" y=\"20\">one</text>\
                <text x=\"5\" y=\"22\">two</text><text x=\"90\" y=\"40\">three</text></svg>\
                <a href=\"#nowhere\">a</a><p id=\"a\"></p><p id=\"a\"></p>\
                <img src=\"https://example.org/a.png\"><script>throw Error('oops')</script>\
                <div style=\"width:900px\">wide</div></body></html>";
    let found = inspect(browser, folder, page, WINDOWS[0]);
    let problems = found["problems"].to_string();
    let faults = [
        "overlap: two and one",
        "outside its plot: three",
        "leads nowhere: #nowhere",
        "twice: #a",
        "forbidden: img-src",
        "oops",
    ];
    for fault in faults {
        assert!(
            problems.contains(fault),
            "{fault} was not found: {problems}"
        );
    }
    assert!(found["needed"].as_u64() > Some(400), "{found}");
}

#[test]
fn the_page_and_its_plots_are_readable_in_a_browser() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium in PATH (Debian package chromium)");
        return;
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    let probe = folder.join("probe.html");
    fs::write(&probe, "<!DOCTYPE html><p>probe").expect("writable");
    match open(&browser, folder, &probe, WINDOWS[2], "--dump-dom") {
        Ok(dom) if dom.contains("probe") => {}
        Ok(_) => return println!("skipped: {} shows nothing here", browser.display()),
        Err(why) => return println!("skipped: {}: {why}", browser.display()),
    }
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture/invented.json");
    let fixture = read_files(&[fixture]).expect("the fixture is readable");
    inspection_finds_planted_faults(&browser, folder);
    for (name, results) in [("fixture", fixture), ("crowded", crowded())] {
        let files = render(&results);
        let page = folder.join("report.html");
        fs::write(&page, &files[0].1).expect("writable");
        let plots: String = files
            .iter()
            .filter(|(name, _)| name.ends_with(".svg"))
            .map(|(_, text)| text.as_str())
            .collect();
        let plots = format!("<!DOCTYPE html><html><head></head><body>{plots}</body></html>");
        let named = results.runs.iter().flat_map(|run| &run.experiments);
        let named: Vec<&str> = named.map(|e| e.about.name.as_str()).collect();
        for window in WINDOWS {
            let found = inspect(&browser, folder, &files[0].1, window);
            assert_eq!(found["problems"], json!([]), "{name} {window:?}");
            assert_eq!(found["width"], json!(window.width), "{name}");
            assert!(
                found["needed"].as_u64() <= Some(u64::from(window.width)),
                "{name}: {found}"
            );
            assert_eq!(found["dark"], json!(window.dark), "{name}");
            assert_eq!(found["experiments"], json!(named), "{name}");
            let dark = found["background"] == json!("rgb(23, 23, 20)");
            assert_eq!(dark, window.dark, "{name}: {}", found["background"]);
            assert_eq!(
                picture(&browser, folder, &page, window, name),
                window.width,
                "{name}"
            );
        }
        let found = inspect(&browser, folder, &plots, WINDOWS[2]);
        assert_eq!(found["problems"], json!([]), "plots of {name}");
        assert_eq!(found["plots"], json!(files.len() - 2), "plots of {name}");
    }
}
