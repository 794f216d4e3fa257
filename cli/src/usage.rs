//! Errors of usage. clap words them; it does not say that a value came from the environment.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, Parser};

use crate::arguments::Arguments;
use crate::output::print_error;

/// Parses the command line; prints help, or what is wrong with it, and exits.
pub(crate) fn parse() -> Arguments {
    Arguments::try_parse().unwrap_or_else(|error| {
        let words: Vec<OsString> = std::env::args_os().collect();
        let variables = variables_of(&error, &words);
        match value_error(&error) {
            Some(what) => print_error(what),
            None if variables.is_empty() => error.exit(),
            // As clap prints it, and then one line more.
            None => drop(error.print()),
        }
        for (flag, variable) in variables {
            print_error(format_args!(
                "the value of {flag} is that of the environment variable {variable}; \
                 correct it, or unset it"
            ));
        }
        std::process::exit(2)
    })
}

/// What is wrong with a value, in the one line of it that the parser of the value words: it says
/// what to do, and more help has nothing to add.
fn value_error(error: &clap::Error) -> Option<String> {
    let is_about_a_value = error.kind() == ErrorKind::ValueValidation;
    let rendered = is_about_a_value.then(|| error.to_string())?;
    let what = rendered.strip_prefix("error: ").unwrap_or(&rendered);
    let what = what
        .split("\n\nFor more information")
        .next()
        .unwrap_or(what);
    Some(what.trim_end().replace('\n', " "))
}

/// The flags that an error is about and that are not in the words, with the variables that they
/// were taken from.
fn variables_of(error: &clap::Error, words: &[OsString]) -> Vec<(String, String)> {
    let mut shown = Vec::new();
    for kind in [ContextKind::InvalidArg, ContextKind::PriorArg] {
        match error.get(kind) {
            Some(ContextValue::String(one)) => shown.push(one.clone()),
            Some(ContextValue::Strings(several)) => shown.extend(several.iter().cloned()),
            _ => {}
        }
    }
    let command = Arguments::command();
    shown
        .iter()
        .filter_map(|shown| {
            // As in `--in-memory[=<BOOL>]`.
            let flag = shown.split([' ', '=', '[']).next()?;
            let arg = find(&command, flag.strip_prefix("--")?)?;
            let variable = arg.get_env()?;
            let is_given = words.iter().any(|word| names(word, flag, arg.get_short()));
            let is_set = std::env::var_os(variable).is_some();
            let variable = variable.to_string_lossy().into_owned();
            (is_set && !is_given).then(|| (flag.to_owned(), variable))
        })
        .collect()
}

/// The argument of this long name, of any command: the same name means the same everywhere.
fn find<'a>(command: &'a Command, long: &str) -> Option<&'a Arg> {
    let own = command.get_arguments();
    let mut own = own.filter(|arg| arg.get_long() == Some(long) && arg.get_env().is_some());
    own.next()
        .or_else(|| command.get_subcommands().find_map(|sub| find(sub, long)))
}

/// Whether a word of the command line gives a flag.
fn names(word: &OsString, flag: &str, short: Option<char>) -> bool {
    let word = word.to_string_lossy();
    let rest = word.strip_prefix(flag);
    let is_short = short.is_some_and(|short| word.starts_with(&format!("-{short}")));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('=')) || is_short
}
