//! HBase's own Java client: a program of one source file (`HBaseClient.java`) that Java compiles
//! when it starts, with the jars of the cluster.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use hedgerow_lab_contender::Unavailable;
use hedgerow_lab_data::Keys;
use hedgerow_lab_data::workload::Kind;
use tempfile::TempDir;

use super::cluster::Cluster;
use super::operations::{Lists, Played};
use crate::process::find_program;
use crate::{LabError, Result};

const SOURCE: &str = include_str!("HBaseClient.java");

/// Errors go to a file, as standard output has the answers.
const LOGGING: &str = "\
log4j.rootLogger=ERROR,log
log4j.appender.log=org.apache.log4j.ConsoleAppender
log4j.appender.log.target=System.err
log4j.appender.log.layout=org.apache.log4j.SimpleLayout
";

/// The file with what the program says on its standard error.
const ERRORS: &str = "errors";

/// Whether the program can be compiled and run beside this cluster.
///
/// # Errors
///
/// When it cannot.
pub fn is_available(cluster: &Cluster) -> std::result::Result<(), Unavailable> {
    if find_program("java").is_none() || find_program("javac").is_none() {
        return Err(Unavailable {
            why: "no Java compiler".to_owned(),
            remedy: "apt-get install openjdk-17-jdk-headless".to_owned(),
        });
    }
    cluster.client_jar().map(drop).ok_or_else(|| Unavailable {
        why: "the cluster's processes have no jar of HBase's client".to_owned(),
        remedy: "start it by .ci/hbase up".to_owned(),
    })
}

/// A running program.
pub struct JavaClient {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    folder: TempDir,
}

impl JavaClient {
    /// Starts it; it connects to the cluster.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start(cluster: &Cluster) -> Result<Self> {
        let folder = TempDir::with_prefix("hedgerow-lab-")?;
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("HBaseClient.java"), SOURCE)?;
        std::fs::write(file("log4j.properties"), LOGGING)?;
        std::fs::copy(cluster.configuration(), file("hbase-site.xml"))?;
        let jars = cluster.client_jar().and_then(|jar| jar.parent());
        let jars = jars.ok_or_else(|| LabError::Process("no jars of HBase".to_owned()))?;
        let path = format!("{}:{}/*", folder.path().display(), jars.display());
        let mut child = Command::new("java")
            .args(["-Xmx1g", "-cp", &path])
            .arg(file("HBaseClient.java"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(file(ERRORS))?)
            .spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (Some(input), Some(output)) = (input, output) else {
            return Err(LabError::Process("no pipes to Java".to_owned()));
        };
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
            folder,
        })
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Makes the table of a namespace, which later operations are about.
    ///
    /// # Errors
    ///
    /// What the program says.
    pub fn create(&mut self, namespace: &str) -> Result<()> {
        self.obey(&format!("create {namespace}")).map(drop)
    }

    /// Removes a namespace with its tables.
    ///
    /// # Errors
    ///
    /// What the program says.
    pub fn drop_namespace(&mut self, namespace: &str) -> Result<()> {
        self.obey(&format!("drop {namespace}")).map(drop)
    }

    /// Has it read the operations that [`play`](Self::play) is to do.
    ///
    /// # Errors
    ///
    /// A file that cannot be written, or what the program says.
    pub fn read(&mut self, keys: &Keys, lists: &Lists) -> Result<()> {
        let prefix = self.folder.path().join("operations");
        for (client, list) in lists.iter().enumerate() {
            let mut text = String::new();
            for operation in list {
                let key = String::from_utf8_lossy(keys.get(operation.record as usize));
                let kind = letter(operation.kind)?;
                let _ = writeln!(text, "{kind} {key} {}", operation.scan_length);
            }
            std::fs::write(prefix.with_extension(client.to_string()), text)?;
        }
        let command = format!("read {} {}", prefix.display(), lists.len());
        self.obey(&command).map(drop)
    }

    /// Does the operations that it has read, for so long at most.
    ///
    /// # Errors
    ///
    /// What the program says.
    pub fn play(&mut self, limit: Option<Duration>) -> Result<Played> {
        let seconds = limit.map_or(0.0, |limit| limit.as_secs_f64());
        let answer = self.obey(&format!("play {seconds}"))?;
        played(&answer).ok_or_else(|| LabError::Process(format!("Java said: {answer}")))
    }

    /// Gives a command and waits for the answer.
    fn obey(&mut self, command: &str) -> Result<String> {
        let given = writeln!(self.input, "{command}").and_then(|()| self.input.flush());
        let mut line = String::new();
        if given.is_ok() {
            self.output.read_line(&mut line)?;
        }
        match line.trim() {
            "" => Err(LabError::Process(format!("{command}: {}", self.errors()))),
            answer => Ok(answer.to_owned()),
        }
    }

    /// The first line of what went wrong.
    fn errors(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join(ERRORS)).unwrap_or_default();
        let line = text.lines().find(|line| line.contains("Exception"));
        line.unwrap_or("HBase's Java client ended").to_owned()
    }
}

impl Drop for JavaClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A kind, as the program reads it.
fn letter(kind: Kind) -> Result<char> {
    match kind {
        Kind::Read => Ok('r'),
        Kind::Update => Ok('u'),
        Kind::Insert => Ok('i'),
        Kind::Scan => Ok('s'),
        Kind::ReadModifyWrite => Ok('m'),
        other => Err(LabError::Usage(format!("YCSB has no {}", other.name()))),
    }
}

/// The answer to `play`.
fn played(answer: &str) -> Option<Played> {
    let (operations, rest) = answer.split_once(' ')?;
    let numbers = rest.split(' ').map(str::parse);
    let numbers: std::result::Result<Vec<f64>, _> = numbers.collect();
    let [seconds, mean_us, p50_us, p95_us, p99_us] = numbers.ok()?[..] else {
        return None;
    };
    Some(Played {
        operations: operations.parse().ok()?,
        seconds,
        mean_us,
        p50_us,
        p95_us,
        p99_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_six_numbers() {
        let wanted = Played {
            operations: 7,
            seconds: 1.5,
            mean_us: 2.0,
            p50_us: 3.0,
            p95_us: 4.0,
            p99_us: 5.25,
        };
        assert_eq!(played("7 1.5 2.0 3 4 5.25"), Some(wanted));
        assert_eq!(played("7 1.5 2.0 3 4"), None);
        assert_eq!(played("done"), None);
    }
}
