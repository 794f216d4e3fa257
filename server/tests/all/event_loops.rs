//! What is shown of the event loop, and that several connections are served together by io_uring
//! where it was asked for. That both loops do the same is what all other tests say, run with
//! `HEDGEROW_TEST_EVENT_LOOP`: without it they run on io_uring where there is one, and here some of
//! them on epoll as well.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use hedgerow_server::{Error, EventLoop, ServerOptions};

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
    let http = started.server.addresses().http.unwrap();
    let mut stream = TcpStream::connect(http).unwrap();
    let head = b"GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    stream.write_all(head).unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let line = page
        .lines()
        .find_map(|line| line.strip_prefix("hedgerow_batched_transfers_total "));
    line.expect("the counter is shown").parse().unwrap()
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

#[test]
fn connections_of_a_tick_are_served_together() {
    let Some(started) = on_io_uring() else { return };
    let mut clients: Vec<Client> = (0..64).map(|_| started.client()).collect();
    let mut round = 0;
    eventually(|| {
        round += 1;
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
        (batched_transfers(&started) > 200).then_some(())
    });
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

/// What servers do on io_uring they do on epoll: those tests that have the most to do with sockets,
/// run once more by this program.
#[test]
fn the_same_tests_pass_on_epoll() {
    const CHOICE: &str = "HEDGEROW_TEST_EVENT_LOOP";
    if std::env::var_os(CHOICE).is_some() || on_io_uring().is_none() {
        eprintln!("skipped: all tests run on one loop");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let tests = ["serving::", "unix_sockets::", "resets::", "client_memory::"];
    let again = Command::new(program)
        .args(tests)
        .env(CHOICE, "epoll")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success(), "{text}");
    assert!(!text.contains(" 0 passed"), "none has run: {text}");
}
