//! What is shown of the event loop, and that several connections are served together by io_uring
//! where it was asked for. That both loops do the same is what all other tests say, run with
//! `HEDGEROW_TEST_EVENT_LOOP`: without it they run on io_uring where there is one, and here some of
//! them on epoll as well.

use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Command;

use hedgerow_server::{Error, EventLoop, ServerOptions};

use crate::support::monitoring::counter;
use crate::support::{Client, Started, Value, eventually, ok, one_worker, request};

fn asking(event_loop: EventLoop) -> ServerOptions {
    ServerOptions {
        event_loop,
        http: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        ..one_worker()
    }
}

/// A server on io_uring; `None` where the kernel has none, or a policy forbids it.
fn on_io_uring() -> Option<Started> {
    let db = std::sync::Arc::new(hedgerow::Db::builder().open_in_memory().unwrap());
    match hedgerow_server::Server::start(db.clone(), asking(EventLoop::IoUring)) {
        Ok(server) => Some(Started {
            server,
            db,
            dir: tempfile::tempdir().unwrap(),
        }),
        Err(error @ Error::EventLoop { .. }) => {
            assert!(error.to_string().contains("--event-loop"), "{error}");
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn batched_transfers(started: &Started) -> u64 {
    counter(started, "hedgerow_batched_transfers_total")
}

#[track_caller]
fn shows(started: &Started, name: &str) {
    let Value::Bulk(info) = started.client().run("INFO server") else {
        panic!("no INFO");
    };
    let info = String::from_utf8(info).unwrap();
    let line = format!("multiplexing_api:{name}");
    assert!(info.lines().any(|found| found == line), "{info}");
    assert_eq!(started.server.event_loop().name(), name);
}

#[test]
fn info_shows_the_loop_that_was_chosen() {
    shows(&Started::in_memory(asking(EventLoop::Epoll)), "epoll");
    if let Some(started) = on_io_uring() {
        shows(&started, "io_uring");
    }
    let options = asking(EventLoop::Auto);
    let chosen = Started::in_memory(options).server.event_loop();
    assert_ne!(chosen, EventLoop::Auto);
}

/// Each client sets its key and reads it, all in one round; checks the replies.
fn set_and_get(clients: &mut [Client], round: usize) {
    for (i, client) in clients.iter_mut().enumerate() {
        let (key, value) = (format!("key{i}"), format!("{round} of {i}"));
        let set = request(&[b"SET", key.as_bytes(), value.as_bytes()]);
        client.send(&[set, request(&[b"GET", key.as_bytes()])].concat());
    }
    for (i, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.reply(), ok());
        let value = format!("{round} of {i}");
        assert_eq!(client.reply(), Value::Bulk(value.into_bytes()));
    }
}

#[test]
fn connections_of_a_tick_are_served_together() {
    let Some(started) = on_io_uring() else { return };
    let mut clients: Vec<Client> = (0..64).map(|_| started.client()).collect();
    let mut round = 0;
    eventually(|| {
        round += 1;
        set_and_get(&mut clients, round);
        (batched_transfers(&started) > 200).then_some(())
    });
}

/// Puts a file in the place of every ring of this process, so that the kernel refuses whatever is
/// submitted. Returns how many rings there were.
fn break_rings() -> usize {
    let null = std::fs::File::open("/dev/null").unwrap();
    let descriptors: Vec<_> = std::fs::read_dir("/proc/self/fd").unwrap().collect();
    let rings = descriptors.into_iter().flatten().filter(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|to| to.ends_with("anon_inode:[io_uring]"))
    });
    let break_ring = |entry: std::fs::DirEntry| {
        let number = entry.file_name().to_str().unwrap().parse().unwrap();
        // SAFETY: the server's rings own their descriptors, and it runs until this test has ended;
        // the owner made here does not close one. `dup2` touches no memory: the rings' queues stay
        // mapped.
        let mut ring = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(number) });
        rustix::io::dup2(&null, &mut ring).unwrap();
    };
    rings.map(break_ring).count()
}

#[test]
#[ignore = "breaks all rings of its process: another test runs it in one of its own"]
fn broken_rings() {
    let started = on_io_uring().expect("it was there a moment ago");
    let mut clients: Vec<Client> = (0..64).map(|_| started.client()).collect();
    set_and_get(&mut clients, 0);
    assert_eq!(counter(&started, "hedgerow_failed_rings_total"), 0);
    assert_eq!(break_rings(), 1);
    let mut round = 0;
    eventually(|| {
        round += 1;
        set_and_get(&mut clients, round);
        (counter(&started, "hedgerow_failed_rings_total") == 1).then_some(())
    });
    let batched = batched_transfers(&started);
    for round in 0..20 {
        set_and_get(&mut clients, round);
    }
    assert_eq!(batched_transfers(&started), batched);
    shows(&started, "epoll");
}

#[test]
fn clients_notice_no_ring_that_fails() {
    if on_io_uring().is_some() {
        run_again(&["--ignored", "event_loops::broken_rings"], "io_uring");
    }
}

#[test]
fn single_calls_are_what_epoll_makes() {
    let started = Started::in_memory(asking(EventLoop::Epoll));
    let mut clients: Vec<Client> = (0..16).map(|_| started.client()).collect();
    clients
        .iter_mut()
        .for_each(|client| client.send(b"PING\r\n"));
    for client in &mut clients {
        assert_eq!(client.reply(), Value::Simple("PONG".into()));
    }
    assert_eq!(batched_transfers(&started), 0);
}

const CHOICE: &str = "HEDGEROW_TEST_EVENT_LOOP";

/// Runs some of this program's tests in another process.
fn run_again(tests: &[&str], event_loop: &str) {
    let program = std::env::current_exe().unwrap();
    let again = Command::new(program)
        .args(tests)
        .env(CHOICE, event_loop)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success(), "{text}");
    assert!(!text.contains(" 0 passed"), "none has run: {text}");
}

/// What servers do on io_uring they do on epoll: those tests that have the most to do with sockets,
/// run once more by this program.
#[test]
fn the_same_tests_pass_on_epoll() {
    if std::env::var_os(CHOICE).is_some() || on_io_uring().is_none() {
        eprintln!("skipped: all tests run on one loop");
        return;
    }
    let tests = ["serving::", "unix_sockets::", "resets::", "client_memory::"];
    run_again(&tests, "epoll");
}
