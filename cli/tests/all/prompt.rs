//! The prompt of `hedgerow cli`, on a pseudo-terminal as people have it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use hedgerow_testkit::kill::server::Server;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::process::{command, done, hedgerow, no_forks, spawn};

const TIMEOUT: Duration = Duration::from_secs(120);
const UP: &str = "\x1b[A";
const END_OF_INPUT: &str = "\x04";
const INTERRUPT: &str = "\x03";

/// `hedgerow cli` on a terminal.
struct Terminal {
    child: Child,
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    /// What the screen got and nobody has looked at yet.
    unseen: String,
}

impl Terminal {
    /// Starts the prompt; its history is in `home`.
    fn start(home: &Path, address: &str) -> Terminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap();
        let size = Winsize {
            ws_row: 24,
            ws_col: 200,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&theirs, size).unwrap();
        let end = || Stdio::from(OwnedFd::from(theirs.try_clone().unwrap()));
        let mut command = command(home, &["cli", "--resp", address]);
        command
            .env("HOME", home)
            .env("TERM", "xterm")
            .stdin(end())
            .stdout(end())
            .stderr(end());
        let child = spawn(&mut command);
        let keyboard = File::from(ours);
        let mut display = keyboard.try_clone().unwrap();
        let (sender, screen) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // An error says that the other side is closed.
            while let Ok(count @ 1..) = display.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        Terminal {
            child,
            keyboard,
            screen,
            unseen: String::new(),
        }
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen shows this, behind what it was seen to show before.
    #[track_caller]
    fn shows(&mut self, text: &str) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(at) = self.unseen.find(text) {
                self.unseen.drain(..at + text.len());
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.screen.recv_timeout(left) else {
                panic!("no {text:?} in {:?}", self.unseen);
            };
            self.unseen += &String::from_utf8_lossy(&bytes);
        }
    }

    /// Waits for the end of the process, which must be a success.
    #[track_caller]
    fn ends(mut self) {
        let deadline = Instant::now() + TIMEOUT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it goes on: {:?}", self.unseen);
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{status}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server with its data below a directory, and its address.
fn serve(dir: &Path) -> (Server, String) {
    let mut server = {
        let _alone = no_forks();
        let program = Path::new(env!("CARGO_BIN_EXE_hedgerow"));
        Server::spawn(program, &dir.join("data"), &[]).unwrap()
    };
    server.connect().unwrap();
    let address = server.address().to_string();
    (server, address)
}

#[test]
fn the_prompt_completes_remembers_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (_server, address) = serve(dir);
    let run = |words: &[&str]| {
        done(hedgerow(
            dir,
            &[&["cli", "--resp", &address], words].concat(),
        ))
    };
    let prompt = format!("{address}> ");

    let mut terminal = Terminal::start(dir, &address);
    terminal.shows(&prompt);
    terminal.types("SET k v\r");
    terminal.shows("\nOK\r\n");
    terminal.shows(&prompt);
    // Tab completes the only command that begins so, in the case that it is typed in.
    terminal.types("GETD\t k\r");
    terminal.shows("GETDEL");
    terminal.shows("\n\"v\"\r\n");
    assert_eq!(run(&["EXISTS", "k"]), "0\n", "it was GETDEL");
    terminal.shows(&prompt);
    // The last line again.
    terminal.types(&format!("{UP}\r"));
    terminal.shows("GETDEL k");
    terminal.shows("\n(nil)\r\n");
    // What is wrong with a line, or with a command, does not end the prompt.
    terminal.types("GET \"k\r");
    terminal.shows("hedgerow: ");
    terminal.types("NOSUCH\r");
    terminal.shows("ERR unknown command");
    terminal.types("help getdel\r");
    terminal.shows("GETDEL: ");
    terminal.types("help\r");
    terminal.shows("Tab completes");
    terminal.types("AUTH sesame\r");
    terminal.shows("ERR ");
    // The database stands in the prompt; an interrupt gives up the line, not the prompt.
    terminal.types("SELECT 3\r");
    terminal.shows(&format!("{address}[3]> "));
    terminal.types(&format!("SET lost 1{INTERRUPT}"));
    terminal.shows(&format!("{address}[3]> "));
    terminal.types("DBSIZE\r");
    terminal.shows("\n(integer) 0\r\n");
    terminal.types("quit\r");
    terminal.ends();

    let history = std::fs::read_to_string(dir.join(".hedgerow_history")).unwrap();
    assert!(history.contains("GETDEL k"), "{history}");
    assert!(!history.contains("sesame"), "{history}");

    // The next session has the history of this one, and ends with its input.
    let mut terminal = Terminal::start(dir, &address);
    terminal.shows(&prompt);
    terminal.types(&format!("{UP}{UP}{UP}"));
    terminal.shows("SELECT 3");
    terminal.types("\r");
    terminal.shows(&format!("{address}[3]> "));
    terminal.types(END_OF_INPUT);
    terminal.ends();
}

#[test]
fn the_prompt_follows_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (_server, address) = serve(dir);
    let prompt = format!("{address}> ");
    let mut terminal = Terminal::start(dir, &address);
    terminal.shows(&prompt);
    // A command that is queued has no effect yet, and perhaps never.
    terminal.types("MULTI\r");
    terminal.shows("\nOK\r\n");
    terminal.types("SELECT 5\r");
    terminal.shows("\nQUEUED\r\n");
    terminal.types("DISCARD\r");
    terminal.shows("\nOK\r\n");
    terminal.shows(&prompt);
    terminal.types("MULTI\r");
    terminal.shows("\nOK\r\n");
    terminal.types("SELECT 4\r");
    terminal.shows("\nQUEUED\r\n");
    terminal.types("EXEC\r");
    terminal.shows(&format!("{address}[4]> "));
    terminal.types("RESET\r");
    terminal.shows(&prompt);
    terminal.types("quit\r");
    terminal.ends();
}
