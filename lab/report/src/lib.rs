//! Results of the lab.
//!
//! A run of the lab writes JSON lines, one [`Record`] each: what ran where, what each
//! experiment claims to reproduce, every figure, and every contender that had to be left out.
//! Files of several runs can be concatenated. This crate holds the records, so that what the
//! lab writes and what its readers expect cannot drift apart, makes figures of rounds
//! ([`figures`]), and it renders them: as Markdown
//! tables, as SVG plots and as one page that needs nothing else ([`write_report`]).
//!
//! The way of a figure: [`read_files`] checks it, `arrange` finds its place, `table` and `plot`
//! decide what is shown, and `markdown`, `svg` and `html` say it in their language. All text
//! from files passes through `escape`.

#![forbid(unsafe_code)]

mod arrange;
mod document;
mod escape;
mod finding;
mod html;
mod inspected;
mod layout;
mod markdown;
mod number;
mod parameters;
mod plot;
mod read;
mod record;
mod rounds;
mod svg;
mod table;
mod write;

pub use arrange::{HARNESS, OURS};
pub use inspected::{Inspected, LayoutColumn, LayoutRow, LayoutTable, PageMap, PageRun};
pub use layout::MOST_PAGES;
pub use read::{ExperimentResults, ReadError, Results, RunResults, read, read_files};
pub use record::{
    Better, Cause, Experiment, Figure, Layout, Machine, Measured, Participant, Record, Round, Run,
    SCHEMA, Skipped, X,
};
pub use rounds::{EXECUTION_TIME, Rounds, figures, significant};
pub use write::{ReportError, render, write_report};
