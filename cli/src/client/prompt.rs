//! The prompt: lines that can be edited, with a history, and names of commands that complete.

use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};

use super::reply::Reply;
use super::session::Client;
use super::words;
use crate::error::{Error, Result};
use crate::output::print_error;

/// Lines of the history that are kept.
const HISTORY_LINES: usize = 1000;
const HELP: &str = "\
Type a command and its arguments, as in: SET greeting \"hello world\"
Tab completes names of commands. help NAME tells what a command does; quit ends.";

/// What the server says of its commands: name and what it does.
#[derive(Default)]
struct Commands(Vec<(String, String)>);

impl Commands {
    /// Asks with `COMMAND DOCS`. A server that does not answer that completes nothing.
    fn ask(client: &mut Client) -> Commands {
        let words = [b"COMMAND".to_vec(), b"DOCS".to_vec()];
        let Ok(Reply::Array(items)) = client.call(&words) else {
            return Commands::default();
        };
        let mut commands: Vec<_> = items
            .chunks_exact(2)
            .filter_map(|pair| {
                let Reply::Bulk(name) = &pair[0] else {
                    return None;
                };
                let name = String::from_utf8_lossy(name).into_owned();
                Some((name, summary(&pair[1])))
            })
            .collect();
        commands.sort();
        Commands(commands)
    }

    /// Names that begin like this, in the case that it has.
    fn completions(&self, begun: &str) -> Vec<String> {
        let lower = begun.to_ascii_lowercase();
        let is_upper = begun.chars().next().is_some_and(|c| c.is_ascii_uppercase());
        let names = self.0.iter().map(|(name, _)| name);
        let names = names.filter(|name| name.starts_with(&lower));
        names
            .map(|name| match is_upper {
                true => name.to_ascii_uppercase(),
                false => name.clone(),
            })
            .collect()
    }
}

/// The field `summary` of what `COMMAND DOCS` says of a command.
fn summary(fields: &Reply) -> String {
    let Reply::Array(fields) = fields else {
        return String::new();
    };
    let field = fields
        .chunks_exact(2)
        .find(|pair| pair[0] == Reply::Bulk(b"summary".to_vec()));
    field.map_or_else(String::new, |pair| {
        String::from_utf8_lossy(&pair[1].raw()).into_owned()
    })
}

impl Completer for Commands {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let begun = line[..position].trim_start();
        let start = position - begun.len();
        // Only the name; of keys nothing is known.
        if begun.contains(char::is_whitespace) {
            return Ok((position, Vec::new()));
        }
        Ok((start, self.completions(begun)))
    }
}

impl Hinter for Commands {
    type Hint = String;
}
impl Highlighter for Commands {}
impl Validator for Commands {}
impl Helper for Commands {}

fn failed(error: ReadlineError) -> Error {
    Error::Failed(format!("could not read from the terminal: {error}"))
}

fn history_file() -> Option<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty())?;
    Some(PathBuf::from(home).join(".hedgerow_history"))
}

/// Whether a line may be kept: passwords may not.
fn is_public(words: &[Vec<u8>]) -> bool {
    let has_password = |name: &[u8]| {
        [&b"AUTH"[..], b"HELLO", b"CONFIG"]
            .iter()
            .any(|command| name.eq_ignore_ascii_case(command))
    };
    words.first().is_some_and(|name| !has_password(name))
}

/// Prompts for commands until the end of input.
pub(crate) fn run(client: &mut Client) -> Result<()> {
    let config = Config::builder()
        .max_history_size(HISTORY_LINES)
        .and_then(|builder| builder.history_ignore_dups(true))
        .map_err(failed)?
        .build();
    let mut editor: Editor<Commands, DefaultHistory> =
        Editor::with_config(config).map_err(failed)?;
    editor.set_helper(Some(Commands::ask(client)));
    let history = history_file();
    if let Some(file) = &history {
        // None yet, or none that can be read: then there is none.
        let _ = editor.load_history(file);
    }
    loop {
        let database = match client.database {
            0 => String::new(),
            number => format!("[{number}]"),
        };
        let line = match editor.readline(&format!("{}{database}> ", client.address)) {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(failed(error)),
        };
        let words = match words::split(line.as_bytes()) {
            Ok(words) if words.is_empty() => continue,
            Ok(words) => words,
            Err(what) => {
                print_error(what);
                continue;
            }
        };
        if is_public(&words) {
            let _ = editor.add_history_entry(line.as_str());
        }
        if !perform(client, &editor, &words)? {
            break;
        }
    }
    if let Some(file) = &history {
        // A convenience: where it cannot be written, there is no history next time.
        let _ = editor.save_history(file);
    }
    Ok(())
}

/// Does what a line says; whether to go on.
fn perform(
    client: &mut Client,
    editor: &Editor<Commands, DefaultHistory>,
    words: &[Vec<u8>],
) -> Result<bool> {
    match words[0].to_ascii_lowercase().as_slice() {
        b"quit" | b"exit" => return Ok(false),
        b"help" => {
            help(editor.helper(), words.get(1));
            return Ok(true);
        }
        _ => {}
    }
    match client.perform(words) {
        // The next command connects again.
        Err(Error::Failed(what)) => print_error(what),
        Err(error) => return Err(error),
        Ok(_) => {}
    }
    Ok(true)
}

fn help(commands: Option<&Commands>, name: Option<&Vec<u8>>) {
    let (Some(commands), Some(name)) = (commands, name) else {
        println!("{HELP}");
        return;
    };
    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
    match commands.0.iter().find(|(known, _)| *known == name) {
        Some((name, summary)) => println!("{}: {summary}", name.to_ascii_uppercase()),
        None => println!("The server has no command {name:?}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_complete_in_the_case_that_they_are_typed_in() {
        let commands = ["get", "getdel", "set"];
        let commands = Commands(commands.map(|name| (name.into(), String::new())).into());
        assert_eq!(commands.completions("ge"), ["get", "getdel"]);
        assert_eq!(commands.completions("GETD"), ["GETDEL"]);
        assert!(commands.completions("x").is_empty());
    }

    #[test]
    fn passwords_are_not_kept_in_the_history() {
        let is_public = |line: &str| is_public(&words::split(line.as_bytes()).unwrap());
        assert!(is_public("GET auth"));
        assert!(!is_public("auth secret"));
        assert!(!is_public("HELLO 3 AUTH default secret"));
    }
}
