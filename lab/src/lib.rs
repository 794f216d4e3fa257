//! The lab: Hedgerow measured beside its peers.
//!
//! Machines differ and shared ones drift, so the lab never quotes a time by itself. A run
//! interleaves its contenders (A B C A B C …), each round of each in a process of its own,
//! repeats, and reports medians, their spread, and ratios to a named contender taken within
//! each round. Before any timing each contender answers a script of operations that is compared
//! with a model; one that answers wrongly is not timed.
//!
//! * `registry`, `contestant`, `forms`, `servers`: who can be measured.
//! * `experiment`, [`experiments`]: what is measured, one module per figure of a source.
//! * [`runner`]: plans, rounds, processes, results.
//! * `map_experiment`, `map_workload`, `verify`: experiments on maps in memory.
//! * `served_index`: experiments on a server's indexes.
//! * `stores`: experiments on durable engines.
//! * [`advise`]: which map suits a user's own keys and mix.
//! * [`layout`], `layout_experiment`: how the nodes of trees lie in memory.
//! * [`readme`]: the README's tables from results.
//! * [`fetch`]: real key sets from Debian's archive.
//! * [`scaling`]: what Hedgerow on HBase does on many servers, on paper.
//! * `wire`, [`process`]: servers and a lean load client; [`bare_server`]: what sockets alone cost.
//! * `pace`: how long all that will take. `profile`: which functions take it, by simulation.
//! * `machine`: where we run.

#![forbid(unsafe_code)]

pub mod advise;
mod asking;
pub mod bare_server;
mod contestant;
mod control_group;
mod counters;
mod experiment;
pub mod experiments;
pub mod fetch;
mod forms;
mod harness;
pub mod layout;
mod layout_experiment;
pub mod list;
mod machine;
mod map_experiment;
mod map_workload;
mod mixed_model;
mod mixed_workload;
mod pace;
pub mod process;
mod profile;
pub mod readme;
mod registry;
pub mod runner;
pub mod scaling;
mod served_index;
mod servers;
mod stores;
mod subject;
mod threads;
mod verify;
mod wire;

pub use machine::FIRST_PROCESSOR;

/// What the message of a wrong answer begins with.
const WRONG_ANSWER: &str = "wrong answer, no timing: ";

/// What can go wrong in the lab.
#[derive(Debug)]
#[non_exhaustive]
pub enum LabError {
    /// A file or socket failed.
    Io(std::io::Error),
    /// A contender answered wrongly; it must not be timed.
    WrongAnswer(String),
    /// The arguments make no sense together.
    Usage(String),
    /// A program that the experiment starts failed.
    Process(String),
    /// Someone or something is not to be had here.
    Unavailable(String),
}

impl LabError {
    /// The exit code of a process that found a wrong answer.
    const WRONG_ANSWER: u8 = 3;

    /// The exit code of a process that ends with this.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::WrongAnswer(_) => Self::WRONG_ANSWER,
            _ => 1,
        }
    }

    /// What a process that ended with `code` says of itself, in the words of its standard error.
    fn of_process(code: Option<i32>, what: String) -> Self {
        match code == Some(i32::from(Self::WRONG_ANSWER)) {
            true => Self::WrongAnswer(what),
            false => Self::Process(what),
        }
    }

    /// A contender that is not installed.
    #[must_use]
    pub fn unavailable(reason: &hedgerow_lab_contender::Unavailable) -> Self {
        Self::Unavailable(reason.to_string())
    }

    /// Any error of a library, in its words.
    pub fn from_display(error: impl std::fmt::Display) -> Self {
        Self::Process(error.to_string())
    }
}

impl std::fmt::Display for LabError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(f, "input/output failed: {error}"),
            Self::WrongAnswer(what) => write!(f, "{WRONG_ANSWER}{what}"),
            Self::Usage(what) | Self::Process(what) | Self::Unavailable(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for LabError {}

impl From<std::io::Error> for LabError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<hedgerow_lab_data::KeySetError> for LabError {
    fn from(error: hedgerow_lab_data::KeySetError) -> Self {
        Self::Usage(error.to_string())
    }
}

/// The result of lab code.
pub type Result<T> = std::result::Result<T, LabError>;
