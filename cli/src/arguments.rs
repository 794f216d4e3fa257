//! The words of the command line.
//!
//! Kept apart from what they do, so that completions and man pages are generated from the very
//! structures that parse.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use hedgerow::IndexKind;

use crate::address::{self, ServerAddress};
use crate::examples;
use crate::serve_arguments::{Durability, Serve, index};
use crate::size;

/// A durable, ordered key-value engine and server.
#[derive(Parser)]
#[command(name = "hedgerow", version, about, max_term_width = 100)]
pub(crate) struct Arguments {
    /// Print results as JSON, one object a line.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Serve Redis and memcached clients.
    #[command(after_help = examples::SERVE)]
    Serve(Box<Serve>),
    /// Talk to a running server as a Redis client does.
    #[command(after_help = examples::CLI)]
    Cli(Box<Cli>),
    /// Print the value of a key.
    #[command(after_help = examples::GET)]
    Get(Get),
    /// Store a value under a key.
    #[command(after_help = examples::PUT)]
    Put(Put),
    /// Delete keys.
    #[command(after_help = examples::DELETE)]
    Delete(Delete),
    /// Print rows in key order.
    #[command(after_help = examples::SCAN)]
    Scan(Scan),
    /// Count keys.
    #[command(after_help = examples::COUNT)]
    Count(Count),
    /// Load rows from a file or standard input: lines, or a dump.
    #[command(after_help = examples::LOAD)]
    Load(Load),
    /// Print all rows of all keyspaces in the form that `load` reads.
    #[command(after_help = examples::DUMP)]
    Dump(Dump),
    /// Copy all rows from one place to another: a closed database, or a backend that a URL names.
    #[command(after_help = examples::COPY)]
    Copy(Copy),
    /// Create, list and drop the keyspaces of a closed database.
    #[command(subcommand, after_help = examples::KEYSPACE)]
    Keyspace(KeyspaceCommand),
    /// Print numbers about a database.
    #[command(after_help = examples::STATS)]
    Stats(Stats),
    /// Verify every file of a closed database and print what is wrong.
    #[command(after_help = examples::CHECK)]
    Check(Data),
    /// Write a checkpoint, so that the next start is quick.
    #[command(after_help = examples::CHECKPOINT)]
    Checkpoint(Data),
    /// Copy a database into an empty directory.
    #[command(after_help = examples::BACKUP)]
    Backup(Backup),
    /// Copy a backup into an empty directory, verifying it.
    #[command(after_help = examples::RESTORE)]
    Restore(Restore),
    /// Run a YCSB workload against a database or a RESP server.
    #[command(after_help = examples::BENCH)]
    Bench(Bench),
    /// Print a completion script for a shell.
    #[command(after_help = examples::COMPLETIONS)]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write the man pages into a directory.
    #[command(after_help = examples::MAN)]
    Man {
        /// The directory; made if missing.
        dir: PathBuf,
    },
}

/// Which database.
#[derive(Args, Clone)]
pub(crate) struct Data {
    /// The directory of the database.
    #[arg(
        long,
        value_name = "DIR",
        env = "HEDGEROW_DATA",
        default_value = "hedgerow-data"
    )]
    pub(crate) data: PathBuf,
    /// Memory for the data while the command runs, like 4GiB [default: no limit; half of the
    /// machine's for a database with B-trees].
    #[arg(long, value_name = "SIZE", env = "HEDGEROW_MEMORY", value_parser = size::bytes)]
    pub(crate) memory: Option<u64>,
}

/// Which keyspace of which database.
#[derive(Args, Clone)]
pub(crate) struct Space {
    #[command(flatten)]
    pub(crate) data: Data,
    /// The keyspace; the server's database 0 is `default`, database n is `db<n>`.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) keyspace: String,
    /// Take and print keys and values as they are, without escapes.
    #[arg(long)]
    pub(crate) raw: bool,
}

/// Options of `get`.
#[derive(Args)]
pub(crate) struct Get {
    #[command(flatten)]
    pub(crate) space: Space,
    /// The key.
    pub(crate) key: String,
    /// Print this column of the row only.
    #[arg(long, value_name = "NAME")]
    pub(crate) column: Option<String>,
}

/// Options of `put`.
#[derive(Args)]
pub(crate) struct Put {
    #[command(flatten)]
    pub(crate) space: Space,
    /// The key.
    pub(crate) key: String,
    /// The value; `-` reads it from standard input as it is.
    pub(crate) value: String,
    /// Store it as this column of the row.
    #[arg(long, value_name = "NAME")]
    pub(crate) column: Option<String>,
    /// How long the row lives, like 90s.
    #[arg(long, value_name = "TIME", value_parser = size::duration, conflicts_with = "column")]
    pub(crate) ttl: Option<Duration>,
}

/// Options of `delete`.
#[derive(Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    pub(crate) space: Space,
    /// The keys.
    #[arg(required = true)]
    pub(crate) keys: Vec<String>,
}

/// A range of keys.
#[derive(Args)]
pub(crate) struct KeyBounds {
    /// The first key of the range [default: the first of all].
    #[arg(long, value_name = "KEY")]
    pub(crate) from: Option<String>,
    /// The first key beyond the range [default: none].
    #[arg(long, value_name = "KEY")]
    pub(crate) to: Option<String>,
    /// Only keys that begin like this.
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["from", "to"])]
    pub(crate) prefix: Option<String>,
}

/// Options of `scan`.
#[derive(Args)]
pub(crate) struct Scan {
    #[command(flatten)]
    pub(crate) space: Space,
    #[command(flatten)]
    pub(crate) bounds: KeyBounds,
    /// At most this many rows.
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// From the last key to the first.
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Print keys only.
    #[arg(long)]
    pub(crate) keys: bool,
}

/// Options of `count`.
#[derive(Args)]
pub(crate) struct Count {
    #[command(flatten)]
    pub(crate) space: Space,
    #[command(flatten)]
    pub(crate) bounds: KeyBounds,
}

/// Options of `load`.
#[derive(Args)]
pub(crate) struct Load {
    #[command(flatten)]
    pub(crate) data: Data,
    /// The keyspace that rows go to [default: `default`; of a dump: those that it names].
    #[arg(long, value_name = "NAME")]
    pub(crate) keyspace: Option<String>,
    /// The index of keyspaces that are made: masstree, matryoshka, bwtree, bst or btree [default:
    /// masstree, or btree where all keyspaces have it].
    #[arg(long, value_name = "NAME", value_parser = index)]
    pub(crate) index: Option<IndexKind>,
    /// Take keys and values as they are, without escapes.
    #[arg(long)]
    pub(crate) raw: bool,
    /// The file; `-` is standard input. What begins like a dump is loaded as one.
    #[arg(default_value = "-")]
    pub(crate) file: PathBuf,
    /// Lines are key, tab, value, with escapes. Without it, a line is a key as it stands.
    #[arg(long)]
    pub(crate) tsv: bool,
    /// The value of each key, where lines are keys [default: the line's number].
    #[arg(long, value_name = "TEXT", conflicts_with = "tsv")]
    pub(crate) value: Option<String>,
    /// Leave out the rows of the first lines, which an interrupted load has stored.
    #[arg(long, value_name = "LINES", default_value_t = 0)]
    pub(crate) skip: u64,
    /// Skip the checkpoint at the end.
    #[arg(long)]
    pub(crate) no_checkpoint: bool,
}

/// Options of `dump`.
#[derive(Args)]
pub(crate) struct Dump {
    #[command(flatten)]
    pub(crate) data: Data,
    /// Only this keyspace [default: all].
    #[arg(long, value_name = "NAME")]
    pub(crate) keyspace: Option<String>,
}

/// How many regions a table is made of.
fn regions(text: &str) -> Result<usize, String> {
    let most = 1000;
    let number = text
        .parse()
        .ok()
        .filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("a table is made of 1 to {most} regions"))
}

/// Options of `copy`.
#[derive(Args)]
pub(crate) struct Copy {
    /// Where the rows are: the directory of a closed database, or a URL as `serve --backend` takes.
    #[arg(long, value_name = "PLACE")]
    pub(crate) from: String,
    /// Where they go, as for --from; a directory is made if missing.
    #[arg(long, value_name = "PLACE")]
    pub(crate) to: String,
    /// Copy only what differs between this place and the source, removals too: the target must have
    /// what is here, as from an earlier copy of this backup.
    #[arg(long, value_name = "PLACE")]
    pub(crate) changed_since: Option<String>,
    /// Only these keyspaces, with commas between, or several times [default: all].
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) keyspace: Vec<String>,
    /// Keep in this file how far the copy has come, and go on there if it ended early.
    #[arg(long, value_name = "FILE")]
    pub(crate) resume: Option<PathBuf>,
    /// Make tables that HBase lacks of so many regions, split where the source's rows divide evenly
    /// [default: one, which HBase splits as it grows].
    #[arg(long, value_name = "N", value_parser = regions)]
    pub(crate) regions: Option<usize>,
    /// The index of keyspaces that a directory lacks: masstree, matryoshka, bwtree, bst or btree
    /// [default: that of the source's keyspace].
    #[arg(long, value_name = "NAME", value_parser = index)]
    pub(crate) index: Option<IndexKind>,
    /// Copy no more rows than this in a second [default: as many as can be].
    #[arg(long, value_name = "N")]
    pub(crate) rows_per_second: Option<u64>,
    /// Nobody else writes to the target meanwhile: HBase gets many rows in a call, unchecked.
    #[arg(long)]
    pub(crate) exclusive: bool,
    /// Compare both sides afterwards.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Compare both sides, and copy nothing.
    #[arg(long, conflicts_with_all = ["verify", "resume", "rows_per_second",
        "exclusive", "changed_since", "regions", "index"])]
    pub(crate) verify_only: bool,
}

/// What to do with keyspaces.
#[derive(Subcommand)]
pub(crate) enum KeyspaceCommand {
    /// Create an empty keyspace; the database is made if missing.
    #[command(after_help = examples::KEYSPACE)]
    Create(KeyspaceCreate),
    /// Print the keyspaces with their indexes and numbers of rows.
    #[command(after_help = examples::KEYSPACE)]
    List(KeyspaceList),
    /// Remove a keyspace with all its rows.
    #[command(after_help = examples::KEYSPACE)]
    Drop(KeyspaceDrop),
}

/// Options of `keyspace create`.
#[derive(Args)]
pub(crate) struct KeyspaceCreate {
    #[command(flatten)]
    pub(crate) data: Data,
    /// Its name.
    pub(crate) name: String,
    /// Its index: masstree, matryoshka, bwtree, bst or btree [default: masstree, or btree where all
    /// keyspaces have it].
    #[arg(long, value_name = "NAME", value_parser = index)]
    pub(crate) index: Option<IndexKind>,
}

/// Options of `keyspace list`.
#[derive(Args)]
pub(crate) struct KeyspaceList {
    #[command(flatten)]
    pub(crate) data: Data,
    /// Print the bytes of each index, too; reads all pages of each btree.
    #[arg(long)]
    pub(crate) bytes: bool,
}

/// Options of `keyspace drop`.
#[derive(Args)]
pub(crate) struct KeyspaceDrop {
    #[command(flatten)]
    pub(crate) data: Data,
    /// Its name.
    pub(crate) name: String,
}

/// Options of `cli`.
#[derive(Args)]
pub(crate) struct Cli {
    /// Where the server is: address and port, a port of this machine, or a Unix domain socket
    /// (`unix:PATH`) [default: 127.0.0.1:7379].
    #[arg(long, value_name = "ADDR", env = "HEDGEROW_RESP", value_parser = address::server)]
    pub(crate) resp: Option<ServerAddress>,
    /// The password, if the server has one.
    #[arg(
        short = 'a',
        long,
        value_name = "WORD",
        env = "HEDGEROW_PASSWORD",
        hide_env_values = true
    )]
    pub(crate) password: Option<String>,
    /// The numbered database.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 0)]
    pub(crate) database: u32,
    /// Print replies as they are: no quotes, no types. The default where the output is no terminal.
    #[arg(long, conflicts_with = "no_raw")]
    pub(crate) raw: bool,
    /// Print replies with quotes and types. The default on a terminal.
    #[arg(long)]
    pub(crate) no_raw: bool,
    /// The command and its arguments. Without it, commands are read from standard input.
    #[arg(
        value_name = "COMMAND",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) words: Vec<OsString>,
}

/// Options of `stats`.
#[derive(Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    pub(crate) data: Data,
    /// Walk the trees, too: nodes, layers, fill.
    #[arg(long)]
    pub(crate) index: bool,
}

/// Options of `backup`.
#[derive(Args)]
pub(crate) struct Backup {
    #[command(flatten)]
    pub(crate) data: Data,
    /// Where to; empty or new.
    pub(crate) to: PathBuf,
}

/// Options of `restore`.
#[derive(Args)]
pub(crate) struct Restore {
    /// The backup.
    pub(crate) from: PathBuf,
    #[command(flatten)]
    pub(crate) data: Data,
    /// Where logs and checkpoints go, as for `serve` [default: the database's directory].
    #[arg(long, value_name = "DIR", value_delimiter = ',')]
    pub(crate) log_dir: Option<Vec<PathBuf>>,
}

/// Options of `bench`.
#[derive(Args)]
pub(crate) struct Bench {
    /// Run against the database in this directory, made if missing.
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present = "resp",
        conflicts_with = "resp"
    )]
    pub(crate) data: Option<PathBuf>,
    /// Run against the RESP server at this address.
    #[arg(long, value_name = "ADDR", value_parser = address::server)]
    pub(crate) resp: Option<ServerAddress>,
    /// The YCSB workloads to run, one after the other, like `a` or `abcdef`.
    #[arg(long, value_name = "LETTERS", default_value = "abcdef")]
    pub(crate) workload: String,
    /// Records to load first.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) records: u64,
    /// Operations per workload, over all threads.
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    pub(crate) operations: u64,
    /// Bytes per value.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) value_bytes: usize,
    /// Client threads (against a server: connections).
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) threads: usize,
    /// Requests in flight per connection (against a server only).
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "data")]
    pub(crate) pipeline: usize,
    /// What writes promise (against a database only).
    #[arg(long, default_value = "periodic", conflicts_with = "resp")]
    pub(crate) durability: Durability,
    /// The seed of all random choices.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
}
