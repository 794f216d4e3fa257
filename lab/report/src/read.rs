//! Reading results files.
//!
//! A results file is a sequence of JSON lines: a run, then its experiments, figures and skipped
//! contenders, then perhaps the next run. The reader checks what the renderers rely on (each
//! line belongs to a run, each figure to an experiment that was announced, none appears twice)
//! and says in which file and line it is not so. Files are read one after another as if they
//! were one, except that each file must begin with a run of its own.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::record::{Experiment, Figure, Layout, Record, Round, Run, SCHEMA, Skipped};
use crate::rounds::figures;

/// Why a results file cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A line is not what it should be.
    #[error("{file}:{line}: {problem}")]
    Line {
        /// The file, as it was named.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong and, where that helps, what to do.
        problem: String,
    },
    /// A file without a single record.
    #[error("{0}: no results in it")]
    Empty(String),
}

/// Everything that was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Results {
    /// The runs, in the order of the files.
    pub runs: Vec<RunResults>,
}

/// A run and what it measured.
#[derive(Debug, Clone, PartialEq)]
pub struct RunResults {
    /// Where and how.
    pub run: Run,
    /// Its experiments in the order in which they began.
    pub experiments: Vec<ExperimentResults>,
}

/// An experiment and its figures.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentResults {
    /// What it reproduces.
    pub about: Experiment,
    /// Its figures in the order in which they were written.
    pub figures: Vec<Figure>,
    /// Who did not take part.
    pub skipped: Vec<Skipped>,
    /// How nodes lay in memory, where the experiment looked.
    pub layouts: Vec<Layout>,
}

/// Reads several results files as one.
///
/// # Errors
///
/// At the first file that cannot be read, is empty, or has a line that makes no sense.
pub fn read_files<P: AsRef<Path>>(files: &[P]) -> Result<Results, ReadError> {
    let mut results = Results::default();
    for path in files {
        let path = path.as_ref();
        let io = |source| ReadError::Io {
            file: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(io)?;
        let name = path.display().to_string();
        let read = read(&name, BufReader::new(file)).map_err(|error| match error {
            ReadError::Io { source, .. } => io(source),
            other => other,
        })?;
        results.runs.extend(read.runs);
    }
    Ok(results)
}

/// Reads results from `input`; `name` stands for it in errors.
///
/// # Errors
///
/// When the input cannot be read, is empty, or has a line that makes no sense.
pub fn read(name: &str, input: impl BufRead) -> Result<Results, ReadError> {
    let mut reader = Reader::default();
    for (i, line) in input.split(b'\n').enumerate() {
        let line = line.map_err(|source| ReadError::Io {
            file: name.into(),
            source,
        })?;
        reader.line(&line).map_err(|problem| ReadError::Line {
            file: name.to_owned(),
            line: i + 1,
            problem,
        })?;
    }
    reader.finish();
    if reader.results.runs.is_empty() {
        return Err(ReadError::Empty(name.to_owned()));
    }
    Ok(reader.results)
}

/// The results so far and the figures seen in the current run.
#[derive(Default)]
struct Reader {
    results: Results,
    seen: HashSet<String>,
    /// Rounds of the current run's experiments, until figures take their place.
    rounds: Vec<Round>,
}

impl Reader {
    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())?;
        if text.trim().is_empty() {
            return Ok(());
        }
        let value: Value = serde_json::from_str(text).map_err(|e| format!("not JSON: {e}"))?;
        check_schema(&value)?;
        // From the text, not from the value: its errors know the column.
        let record: Record =
            serde_json::from_str(text).map_err(|e| format!("not a record: {e}"))?;
        match record {
            Record::Run(run) => self.begin(run),
            Record::Experiment(about) => self.experiment(about)?,
            Record::Figure(figure) => self.figure(figure)?,
            Record::Round(round) => {
                self.find("round", &round.experiment)?;
                self.rounds.push(round);
            }
            Record::Layout(layout) => self.layout(layout)?,
            Record::Skipped(skipped) => {
                let name = skipped.experiment.clone();
                self.find("skipped contender", &name)?.skipped.push(skipped);
            }
        }
        Ok(())
    }

    /// Makes figures of the rounds of experiments that were cut: those that have no figures.
    fn finish(&mut self) {
        let rounds = std::mem::take(&mut self.rounds);
        let Some(run) = self.results.runs.last_mut() else {
            return;
        };
        let cut = run.experiments.iter_mut().filter(|e| e.figures.is_empty());
        for experiment in cut {
            let own = rounds
                .iter()
                .filter(|r| r.experiment == experiment.about.name);
            let own: Vec<Round> = own.cloned().collect();
            let about = &experiment.about;
            experiment.figures = figures(&own, &about.baseline, about.compared_to.as_deref());
        }
    }

    fn begin(&mut self, run: Run) {
        self.finish();
        self.seen.clear();
        self.results.runs.push(RunResults {
            run,
            experiments: Vec::new(),
        });
    }

    fn experiment(&mut self, about: Experiment) -> Result<(), String> {
        let Some(run) = self.results.runs.last_mut() else {
            return Err(format!("experiment `{}` before any run", about.name));
        };
        let before = run.experiments.iter().find(|e| e.about.name == about.name);
        match before {
            None => run.experiments.push(ExperimentResults {
                about,
                figures: Vec::new(),
                skipped: Vec::new(),
                layouts: Vec::new(),
            }),
            Some(before) if before.about == about => {}
            Some(_) => {
                return Err(format!(
                    "experiment `{}` begins twice in one run, each time described differently",
                    about.name
                ));
            }
        }
        Ok(())
    }

    fn figure(&mut self, figure: Figure) -> Result<(), String> {
        let identity = serde_json::to_string(&(
            &figure.experiment,
            &figure.parameters,
            &figure.x,
            &figure.contender,
            &figure.column,
        ))
        .map_err(|e| e.to_string())?;
        let name = figure.experiment.clone();
        let duplicate = format!(
            "a second `{}` of `{}` at the same place in `{name}`",
            figure.column, figure.contender
        );
        self.find("figure", &name)?.figures.push(figure);
        if self.seen.insert(identity) {
            Ok(())
        } else {
            Err(duplicate)
        }
    }

    /// Keeps a layout; a run that is over repeats those of its rounds.
    fn layout(&mut self, layout: Layout) -> Result<(), String> {
        if let Some(problem) = layout.problem() {
            return Err(problem);
        }
        let layouts = &mut self.find("layout", &layout.experiment)?.layouts;
        if !layouts.iter().any(|known| known.same_place(&layout)) {
            layouts.push(layout);
        }
        Ok(())
    }

    fn find(&mut self, what: &str, name: &str) -> Result<&mut ExperimentResults, String> {
        let Some(run) = self.results.runs.last_mut() else {
            return Err(format!("a {what} of `{name}` before any run"));
        };
        run.experiments
            .iter_mut()
            .find(|e| e.about.name == name)
            .ok_or_else(|| {
                format!("a {what} of `{name}`, an experiment that no line of its run announces")
            })
    }
}

/// Refuses what another version of the lab wrote, before its fields can confuse anyone.
fn check_schema(value: &Value) -> Result<(), String> {
    if value.get("kind").is_none() && value.get("machine").is_some() {
        return Err("written before results had a schema; run the experiment again".to_owned());
    }
    if value["kind"] != "run" {
        return Ok(());
    }
    match value["schema"].as_u64() {
        Some(newer) if newer > u64::from(SCHEMA) => Err(format!(
            "written by a newer lab: schema {newer}, and this one knows up to {SCHEMA}; \
             update hedgerow-lab"
        )),
        Some(older) if older < u64::from(SCHEMA) => Err(format!(
            "schema {older}, and this lab knows only {SCHEMA}; run the experiment again"
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = concat!(
        r#"{"kind":"run","schema":2,"command":"hedgerow-lab run demo","started":0,"#,
        r#""scale":"smoke","machine":{"cpu":"","cores":1,"simd":[],"last_cache":"","#,
        r#""memory_gib":0,"kernel":"","superpages":"","commit":""},"contenders":[]}"#,
    );
    const EXPERIMENT: &str = concat!(
        r#"{"kind":"experiment","name":"demo","title":"","source":"","claim":"","x_label":null,"#,
        r#""x_log":false,"baseline":"a"}"#,
    );
    const FIGURE: &str = concat!(
        r#"{"kind":"figure","experiment":"demo","parameters":{},"x":null,"contender":"a","#,
        r#""column":"get","unit":"ns","better":"lower","median":1,"min":1,"max":1,"rounds":[1],"#,
        r#""ratio":1,"errors":0}"#,
    );

    fn problem(lines: &[&str]) -> String {
        let text = lines.join("\n");
        let error = read("a.json", text.as_bytes()).expect_err("should not be readable");
        error.to_string()
    }

    #[test]
    fn good_lines_are_read() {
        let text = [RUN, "", EXPERIMENT, FIGURE, "", RUN, EXPERIMENT, FIGURE].join("\n");
        let results = read("a.json", text.as_bytes()).expect("readable");
        assert_eq!(results.runs.len(), 2);
        assert_eq!(results.runs[1].experiments[0].figures.len(), 1);
    }

    #[test]
    fn rounds_stand_in_for_figures_that_a_cut_run_did_not_write() {
        let round = |nth: u32, ns: u32| {
            let figure =
                format!(r#"{{"column":"get","unit":"ns","better":"lower","figure":{ns}}}"#);
            let head = r#""kind":"round","experiment":"demo","parameters":{},"x":null"#;
            let tail = format!(r#""contender":"a","figures":[{figure}],"errors":0"#);
            format!(r#"{{{head},"round":{nth},{tail}}}"#)
        };
        let (first, second) = (round(0, 7), round(1, 9));
        let cut = [RUN, EXPERIMENT, &first, &second, RUN, EXPERIMENT, &first];
        let results = read("a.json", cut.join("\n").as_bytes()).expect("readable");
        let figures = |run: usize| &results.runs[run].experiments[0].figures;
        assert_eq!(figures(0).len(), 1);
        assert_eq!(
            (figures(0)[0].median, figures(0)[0].ratio),
            (Some(8.0), Some(1.0))
        );
        assert_eq!(figures(1)[0].rounds, [7.0]);
        let whole = [RUN, EXPERIMENT, &first, &second, FIGURE].join("\n");
        let results = read("a.json", whole.as_bytes()).expect("readable");
        let figures = &results.runs[0].experiments[0].figures;
        assert_eq!((figures.len(), figures[0].median), (1, Some(1.0)));
        let stray = problem(&[RUN, &first]);
        assert!(stray.starts_with("a.json:2: a round of `demo`"), "{stray}");
    }

    #[test]
    fn errors_name_file_and_line() {
        let newer = RUN.replace("\"schema\":2", "\"schema\":3");
        let older = RUN.replace("\"schema\":2", "\"schema\":1");
        let other = FIGURE.replace("demo", "other");
        let again = EXPERIMENT.replace("\"x_log\":false", "\"x_log\":true");
        let cut = &FIGURE[..FIGURE.len() - 9];
        let cases: &[(&[&str], &str)] = &[
            (&[RUN, "{"], "a.json:2: not JSON"),
            (&[RUN, EXPERIMENT, cut], "a.json:3: not JSON"),
            (
                &[RUN, r#"{"kind":"poem"}"#],
                "a.json:2: not a record: unknown variant `poem`",
            ),
            (
                &[RUN, r#"{"kind":"experiment"}"#],
                "a.json:2: not a record: missing field",
            ),
            (&[&newer], "a.json:1: written by a newer lab: schema 3"),
            (&[&older], "a.json:1: schema 1"),
            (
                &[r#"{"machine":{},"command":""}"#],
                "a.json:1: written before",
            ),
            (&[RUN, EXPERIMENT, &other], "a.json:3: a figure of `other`"),
            (&[RUN, FIGURE], "a.json:2: a figure of `demo`"),
            (&[FIGURE], "a.json:1: a figure of `demo` before any run"),
            (&[EXPERIMENT], "a.json:1: experiment `demo` before any run"),
            (
                &[RUN, EXPERIMENT, &again],
                "a.json:3: experiment `demo` begins twice",
            ),
            (
                &[RUN, EXPERIMENT, FIGURE, FIGURE],
                "a.json:4: a second `get` of `a`",
            ),
            (&["", ""], "a.json: no results in it"),
        ];
        for (lines, expected) in cases {
            let problem = problem(lines);
            assert!(problem.starts_with(expected), "{problem} is not {expected}");
            assert!(!problem.contains('\n'), "one line: {problem}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read_files(&["/nonexistent/results.json"]).expect_err("not there");
        assert!(
            error.to_string().starts_with("/nonexistent/results.json: "),
            "{error}"
        );
    }

    #[test]
    fn bytes_that_are_not_text_are_an_error() {
        let error = read("a.json", &b"\xff\n"[..]).expect_err("not text");
        assert_eq!(error.to_string(), "a.json:1: not UTF-8");
    }
}
