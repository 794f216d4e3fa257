//! Batches on real sockets, beside single calls on the same.

#![cfg(target_os = "linux")]

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use hedgerow_ring::Ring;

/// A ring; `None` where the kernel has none, or a policy forbids it.
fn ring() -> Option<Ring> {
    match Ring::new() {
        Ok(ring) => Some(ring),
        Err(error) => {
            eprintln!("skipped: there is no io_uring here: {error}");
            None
        }
    }
}

fn tcp() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    server.set_nonblocking(true).unwrap();
    (server, client)
}

fn kind(outcome: Option<io::Result<usize>>) -> ErrorKind {
    outcome.unwrap().unwrap_err().kind()
}

/// Receives from each socket once.
fn receive<S: AsFd>(ring: &mut Ring, sockets: &[S], most: usize) -> Vec<io::Result<Vec<u8>>> {
    let mut buffers = vec![vec![0; most]; sockets.len()];
    let mut batch = ring.batch();
    for (socket, buffer) in sockets.iter().zip(&mut buffers) {
        batch.receive(socket.as_fd(), buffer);
    }
    let outcomes = batch.run();
    let received = buffers.into_iter().enumerate().map(|(nth, mut buffer)| {
        buffer.truncate(outcomes.get(nth).expect("it was done")?);
        Ok(buffer)
    });
    received.collect()
}

#[test]
fn each_transfer_has_its_own_outcome() {
    let Some(mut ring) = ring() else { return };
    let (server, mut client) = tcp();
    let (silent, _silent_client) = UnixStream::pair().unwrap();
    let (gone, gone_client) = UnixStream::pair().unwrap();
    drop(gone_client);
    client.write_all(b"hello").unwrap();
    while server.peek(&mut [0; 8]).is_err() {}
    let (mut first, mut second, mut third) = ([0; 8], [0; 8], [0; 8]);
    let mut batch = ring.batch();
    assert!(batch.is_empty());
    batch.receive(server.as_fd(), &mut first);
    batch.receive(silent.as_fd(), &mut second);
    batch.receive(gone.as_fd(), &mut third);
    batch.send(gone.as_fd(), b"nobody");
    batch.send(server.as_fd(), b"world");
    assert_eq!(batch.len(), 5);
    let outcomes = batch.run();
    assert_eq!(outcomes.get(0).unwrap().unwrap(), 5);
    assert_eq!(kind(outcomes.get(1)), ErrorKind::WouldBlock);
    assert_eq!(outcomes.get(2).unwrap().unwrap(), 0, "the end");
    assert_eq!(kind(outcomes.get(3)), ErrorKind::BrokenPipe);
    assert_eq!(outcomes.get(4).unwrap().unwrap(), 5);
    assert!(outcomes.get(5).is_none());
    assert_eq!(&first[..5], b"hello");
    let mut answer = [0; 5];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"world");
    assert!(!ring.has_failed());
}

#[test]
fn a_peer_that_never_reads_gets_a_part_and_holds_nobody_up() {
    let Some(mut ring) = ring() else { return };
    let (lazy, mut lazy_client) = UnixStream::pair().unwrap();
    let (eager, mut eager_client) = UnixStream::pair().unwrap();
    let much: Vec<u8> = (0..8_000_000u32).map(|i| (i / 7) as u8).collect();
    let mut batch = ring.batch();
    batch.send(lazy.as_fd(), &much);
    batch.send(eager.as_fd(), b"at once");
    let outcomes = batch.run();
    let mut sent = outcomes.get(0).unwrap().unwrap();
    assert!(sent > 0 && sent < much.len(), "{sent} bytes fit");
    assert_eq!(outcomes.get(1).unwrap().unwrap(), 7);
    let mut seven = [0; 7];
    eager_client.read_exact(&mut seven).unwrap();
    let mut batch = ring.batch();
    batch.send(lazy.as_fd(), &much[sent..]);
    assert_eq!(kind(batch.run().get(0)), ErrorKind::WouldBlock);
    // Once it reads, the rest follows from where the first part ended.
    let total = much.len();
    let reader = std::thread::spawn(move || {
        let mut received = vec![0; total];
        lazy_client.read_exact(&mut received).unwrap();
        received
    });
    while sent < much.len() {
        let mut batch = ring.batch();
        batch.send(lazy.as_fd(), &much[sent..]);
        match batch.run().get(0).unwrap() {
            Ok(more) => sent += more,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    assert!(reader.join().unwrap() == much);
}

#[test]
fn thousands_of_connections_are_one_batch() {
    let Some(mut ring) = ring() else { return };
    // More than the queue has entries, as far as the limit of open files lets it.
    let pairs: Vec<_> = (0..2_000).map_while(|_| UnixStream::pair().ok()).collect();
    assert!(pairs.len() > 300, "{} pairs", pairs.len());
    let (servers, mut clients): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    for round in 0..5usize {
        for (i, client) in clients.iter_mut().enumerate() {
            client.write_all(format!("{i} {round}").as_bytes()).unwrap();
        }
        let received = receive(&mut ring, &servers, 64);
        let mut batch = ring.batch();
        for (server, bytes) in servers.iter().zip(&received) {
            batch.send(server.as_fd(), bytes.as_ref().unwrap());
        }
        let outcomes = batch.run();
        assert!((0..servers.len()).all(|nth| outcomes.get(nth).unwrap().is_ok()));
        for (i, client) in clients.iter_mut().enumerate() {
            let mut answer = [0; 64];
            let n = client.read(&mut answer).unwrap();
            assert_eq!(answer[..n], *format!("{i} {round}").as_bytes());
        }
    }
}

#[test]
fn a_connection_that_reuses_a_number_gets_nothing_of_the_last_one() {
    let Some(mut ring) = ring() else { return };
    let mut numbers = Vec::new();
    for round in 0..500u32 {
        let (server, mut client) = UnixStream::pair().unwrap();
        numbers.push(server.as_raw_fd());
        // One with a receive that found nothing and a send that nobody fetched is closed at once.
        let mut buffer = [0; 16];
        let mut batch = ring.batch();
        batch.receive(server.as_fd(), &mut buffer);
        batch.send(server.as_fd(), b"for the first one");
        let outcomes = batch.run();
        assert_eq!(kind(outcomes.get(0)), ErrorKind::WouldBlock);
        assert!(outcomes.get(1).unwrap().is_ok());
        drop(server);
        let (server, mut next) = UnixStream::pair().unwrap();
        next.write_all(&round.to_le_bytes()).unwrap();
        let received = receive(&mut ring, std::slice::from_ref(&server), 16);
        assert_eq!(received[0].as_ref().unwrap(), &round.to_le_bytes());
        assert_eq!(buffer, [0; 16]);
        drop(server);
        let mut rest = Vec::new();
        next.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
        client.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"for the first one");
    }
    let all = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert!(numbers.len() < all, "numbers are used again");
}

#[test]
fn what_is_shut_down_or_reset_is_an_outcome() {
    let Some(mut ring) = ring() else { return };
    let (server, client) = tcp();
    client.shutdown(Shutdown::Write).unwrap();
    let receive_once = |ring: &mut Ring| loop {
        let mut received = receive(ring, std::slice::from_ref(&server), 8);
        match received.remove(0) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            outcome => return outcome,
        }
    };
    assert!(receive_once(&mut ring).unwrap().is_empty(), "the end");
    // Bytes that nobody has read when the client closes reset the connection.
    let mut batch = ring.batch();
    batch.send(server.as_fd(), b"unread");
    assert_eq!(batch.run().get(0).unwrap().unwrap(), 6);
    drop(client);
    loop {
        let mut batch = ring.batch();
        batch.send(server.as_fd(), b"more");
        if let Err(error) = batch.run().get(0).unwrap() {
            let expected = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
            assert!(expected.contains(&error.kind()), "{error}");
            break;
        }
    }
}

#[test]
fn a_batch_that_does_not_run_does_nothing() {
    let Some(mut ring) = ring() else { return };
    let (server, mut client) = UnixStream::pair().unwrap();
    {
        let bytes = vec![b'x'; 1000];
        for _ in 0..2 {
            let mut batch = ring.batch();
            batch.send(server.as_fd(), &bytes);
        }
    }
    let mut batch = ring.batch();
    batch.send(server.as_fd(), b"y");
    assert_eq!(batch.run().get(0).unwrap().unwrap(), 1);
    assert!(ring.batch().run().get(0).is_none());
    drop(server);
    let mut received = Vec::new();
    client.read_to_end(&mut received).unwrap();
    assert_eq!(received, b"y");
}

#[test]
fn the_end_of_a_ring_interrupts_nobody_who_has_not_used_it() {
    let (waiting, _other) = UnixStream::pair().unwrap();
    // A wait for input that has an end is not begun again after an interruption.
    waiting
        .set_read_timeout(Some(Duration::from_millis(5)))
        .unwrap();
    for _ in 0..100 {
        let Some(ring) = ring() else { return };
        drop(ring);
        // The kernel takes a ring apart some time after its descriptor was closed.
        for _ in 0..3 {
            let error = (&waiting).read(&mut [0; 8]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
        }
    }
}
