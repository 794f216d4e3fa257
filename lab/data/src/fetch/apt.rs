//! Debian's package clients, run so that they write nothing outside one folder.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::{FetchError, at};

/// The clients, with all that they write in one folder.
pub(super) struct Apt {
    folder: PathBuf,
    options: Vec<OsString>,
}

/// Reads a file whatever it is compressed with, as apt itself does.
const APT_HELPER: &str = "/usr/lib/apt/apt-helper";

impl Apt {
    pub(super) fn new(cache: &Path) -> Result<Self, FetchError> {
        fs::create_dir_all(cache).map_err(at(cache))?;
        // apt takes relative paths to be relative to its own folders.
        let folder = cache.canonicalize().map_err(at(cache))?.join("apt");
        let mut options = Vec::new();
        for (setting, part) in [("Dir::State::Lists", "lists"), ("Dir::Cache", "cache")] {
            let part = folder.join(part);
            for inner in ["partial", "archives/partial"] {
                let inner = part.join(inner);
                fs::create_dir_all(&inner).map_err(at(&inner))?;
            }
            let mut option = OsString::from(format!("{setting}="));
            option.push(&part);
            options.extend([OsString::from("-o"), option]);
        }
        // Where apt runs as root it would hand over to a user who cannot write here.
        for option in ["APT::Sandbox::User=", "Acquire::Languages=none"] {
            options.extend(["-o".into(), option.into()]);
        }
        Ok(Self { folder, options })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .env("LC_ALL", "C");
        command
    }

    fn apt_get(&self, action: &str, settings: Option<&Path>) -> Command {
        let mut command = self.command("apt-get");
        command.args(&self.options).arg("-q");
        if let Some(settings) = settings {
            command.arg("-c").arg(settings);
        }
        command.arg(action);
        command
    }

    /// Reads the archive's lists, with those that `settings` add.
    pub(super) fn update(&self, settings: Option<&Path>) -> Result<(), FetchError> {
        output(self.apt_get("update", settings)).map(drop)
    }

    /// Downloads a package and unpacks it without installing; its folder and version.
    pub(super) fn unpack(&self, package: &str) -> Result<(PathBuf, Option<String>), FetchError> {
        let folder = self.folder.join("packages").join(package);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(at(&folder))?;
        }
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let mut download = self.apt_get("download", None);
        download.arg(package).current_dir(&folder);
        output(download)?;
        let entries = fs::read_dir(&folder).map_err(at(&folder))?;
        let archive = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .ok_or_else(|| FetchError::Nothing(format!("package {package}")))?;
        let mut unpack = self.command("dpkg-deb");
        unpack.arg("-x").arg(&archive).arg(&folder);
        output(unpack)?;
        // NAME_VERSION_ARCHITECTURE.deb, with colons written as %3a.
        let version = file_name(&archive)
            .split('_')
            .nth(1)
            .map(|v| v.replace("%3a", ":"));
        Ok((folder, version))
    }

    /// The files of the archive's indices of one kind.
    pub(super) fn indices(
        &self,
        kind: &str,
        settings: Option<&Path>,
    ) -> Result<Vec<PathBuf>, FetchError> {
        let mut command = self.apt_get("indextargets", settings);
        command
            .args(["--format", "$(FILENAME)"])
            .arg(format!("Created-By: {kind}"));
        let listed = output(command)?;
        let lines = listed
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty());
        let paths = lines.map(|line| PathBuf::from(String::from_utf8_lossy(line).into_owned()));
        Ok(paths.collect())
    }

    /// Gives every line of a file, whatever it is compressed with.
    pub(super) fn read(
        &self,
        path: &Path,
        mut line_found: impl FnMut(&[u8]),
    ) -> Result<(), FetchError> {
        let mut command = self.command(APT_HELPER);
        command
            .arg("cat-file")
            .arg(path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| not_started(&command, error))?;
        let stdout = child.stdout.take().into_iter();
        for mut text in stdout.map(BufReader::new) {
            let mut line = Vec::new();
            loop {
                line.clear();
                if text.read_until(b'\n', &mut line).map_err(at(path))? == 0 {
                    break;
                }
                line_found(line.trim_ascii_end());
            }
        }
        finished(&command, child.wait_with_output()).map(drop)
    }
}

fn not_started(command: &Command, error: std::io::Error) -> FetchError {
    let program = command.get_program().to_string_lossy().into_owned();
    match error.kind() {
        std::io::ErrorKind::NotFound => FetchError::NoProgram(program),
        _ => FetchError::File {
            path: program,
            source: error,
        },
    }
}

fn finished(
    command: &Command,
    output: std::io::Result<std::process::Output>,
) -> Result<Vec<u8>, FetchError> {
    let output = output.map_err(|error| not_started(command, error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = said
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let words = std::iter::once(command.get_program()).chain(command.get_args().last());
    Err(FetchError::Refused {
        command: words
            .map(|word| word.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" … "),
        said: last[last.len().saturating_sub(3)..].join("; "),
    })
}

fn output(mut command: Command) -> Result<Vec<u8>, FetchError> {
    let output = command.output();
    finished(&command, output)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_are_missing_or_refuse_are_named() {
        let error = output(Command::new("/does/not/exist"))
            .expect_err("missing")
            .to_string();
        assert!(
            error.starts_with("/does/not/exist is not here: real sets come from"),
            "{error}"
        );
        let mut failing = Command::new("sh");
        failing.args(["-c", "echo one >&2; echo two >&2; exit 3"]);
        let error = output(failing).expect_err("refused").to_string();
        assert!(
            error.starts_with("sh … ") && error.ends_with("failed: one; two"),
            "{error}"
        );
    }
}
