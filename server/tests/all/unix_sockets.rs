//! Every protocol over a Unix domain socket, beside a port or alone; and the socket's file.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use hedgerow_server::{Error, ServerOptions, UnixSockets};

use crate::support::{Started, TIMEOUT, bulk, eventually, one_worker, start};

fn over(folder: &Path, options: ServerOptions) -> ServerOptions {
    ServerOptions {
        unix: UnixSockets {
            resp: Some(folder.join("resp")),
            memcached: Some(folder.join("memcached")),
            http: Some(folder.join("http")),
            ..UnixSockets::default()
        },
        ..options
    }
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

/// Sends requests and reads as many bytes as the replies should have.
#[track_caller]
fn answers(stream: &mut UnixStream, requests: &str, replies: &str) {
    stream.write_all(requests.as_bytes()).unwrap();
    let mut found = vec![0; replies.len()];
    stream.read_exact(&mut found).unwrap();
    assert_eq!(String::from_utf8_lossy(&found), replies);
}

#[test]
fn every_protocol_speaks_over_a_socket() {
    let folder = tempfile::tempdir().unwrap();
    let started = Started::new(over(folder.path(), one_worker()));
    let mut resp = connect(&folder.path().join("resp"));
    answers(&mut resp, "SET k v\r\nGET k\r\n", "+OK\r\n$1\r\nv\r\n");
    // The port is there as well, and has the same data.
    assert_eq!(started.client().run("GET k"), bulk("v"));
    let mut memcached = connect(&folder.path().join("memcached"));
    let get = "VALUE k 0 1\r\nv\r\nEND\r\n";
    answers(&mut memcached, "get k\r\n", get);
    let mut http = connect(&folder.path().join("http"));
    let request = "GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    http.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    http.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("ok\n"),
        "{answer}"
    );
    // Much at once, in both directions, and from several clients.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut stream = connect(&folder.path().join("resp"));
                let value = "x".repeat(100_000);
                let set = format!("*3\r\n$3\r\nSET\r\n$1\r\nl\r\n$100000\r\n{value}\r\n");
                for _ in 0..20 {
                    let reply = format!("+OK\r\n$100000\r\n{value}\r\n");
                    answers(&mut stream, &format!("{set}GET l\r\n"), &reply);
                }
            });
        }
    });
}

/// A client whose own address is as long as can be: 108 bytes, without room for a NUL.
fn connect_from_the_longest_path(folder: &Path, to: &Path) -> UnixStream {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, socket};
    let filler = 108 - folder.as_os_str().len() - 1;
    let own = folder.join("x".repeat(filler));
    let client = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&client, &SocketAddrUnix::new(&own).unwrap()).unwrap();
    connect(&client, &SocketAddrUnix::new(to).unwrap()).unwrap();
    std::fs::remove_file(own).unwrap();
    let stream = UnixStream::from(client);
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}

#[test]
fn clients_whose_own_address_is_as_long_as_can_be_are_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let started = Started::new(over(folder.path(), one_worker()));
    let healthz = "GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
    for (name, request, reply) in [
        ("resp", "PING\r\n", "+PONG\r\n"),
        ("memcached", "version\r\n", "VERSION "),
        ("http", healthz, "HTTP/1.1 200"),
    ] {
        let path = folder.path().join(name);
        let mut long = connect_from_the_longest_path(folder.path(), &path);
        answers(&mut long, request, reply);
        answers(&mut connect(&path), request, reply);
    }
    assert_eq!(
        started.client().run("PING"),
        crate::support::Value::Simple("PONG".into())
    );
    assert!(started.server.failure().is_none());
}

#[test]
fn clients_of_a_socket_are_listed_and_ended_by_its_path() {
    let folder = tempfile::tempdir().unwrap();
    let started = Started::new(over(folder.path(), one_worker()));
    let path = folder.path().join("resp");
    let mut stream = connect(&path);
    answers(&mut stream, "PING\r\n", "+PONG\r\n");
    let mut other = started.client();
    let crate::support::Value::Bulk(list) = other.run("CLIENT LIST") else {
        panic!("no list");
    };
    let list = String::from_utf8(list).unwrap();
    let end = format!("{}:0", path.display());
    let line = list.lines().find(|line| line.contains(&end)).unwrap();
    assert!(line.contains(&format!("laddr={end} ")) && line.contains(" flags=U "));
    assert_eq!(
        list.lines().filter(|line| line.contains("flags=N")).count(),
        1
    );
    let shown = other.run("CONFIG GET unixsocket*");
    let path_shown = bulk(path.to_str().unwrap());
    let expected = [
        bulk("unixsocket"),
        path_shown,
        bulk("unixsocketperm"),
        bulk("600"),
    ];
    assert_eq!(shown, crate::support::array(expected));
    let killed = other.run(&format!("CLIENT KILL ADDR {end}"));
    assert_eq!(killed, crate::support::Value::Integer(1));
    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn a_socket_needs_no_port_and_its_file_goes_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let options = ServerOptions {
        resp: None,
        max_connections: 1,
        ..over(folder.path(), one_worker())
    };
    let started = Started::new(options.clone());
    assert_eq!(started.server.addresses().resp, None);
    let files = ["resp", "memcached", "http"].map(|name| folder.path().join(name));
    for file in &files {
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    // Too many are refused in words.
    let mut first = connect(&files[0]);
    answers(&mut first, "PING\r\n", "+PONG\r\n");
    let mut second = connect(&files[0]);
    let mut refusal = String::new();
    second.read_to_string(&mut refusal).unwrap();
    assert_eq!(refusal, "-ERR max number of clients reached\r\n");
    // A second server finds the first one there, and harms nothing.
    let refused = start(started.db.clone(), options.clone());
    assert!(matches!(refused.err(), Some(Error::BindUnix { .. })));
    answers(&mut first, "PING\r\n", "+PONG\r\n");
    started.server.shutdown();
    assert_eq!(first.read(&mut [0; 8]).unwrap(), 0);
    assert!(files.iter().all(|file| !file.exists()));
    // What a killed server has left does not stop the next.
    for file in &files {
        drop(std::os::unix::net::UnixListener::bind(file).unwrap());
    }
    let again = start(started.db.clone(), options).unwrap();
    let stream = eventually(|| UnixStream::connect(&files[0]).ok());
    drop((stream, again));
}

#[test]
fn sockets_that_cannot_be_are_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let same = ServerOptions {
        unix: UnixSockets {
            resp: Some(folder.path().join("same")),
            memcached: Some(folder.path().join("same")),
            ..UnixSockets::default()
        },
        ..one_worker()
    };
    let refused = same.check().unwrap_err().to_string();
    assert!(refused.contains("same Unix domain socket"), "{refused}");
    let file = folder.path().join("file");
    std::fs::write(&file, b"x").unwrap();
    let sockets = UnixSockets {
        resp: Some(file.clone()),
        ..UnixSockets::default()
    };
    let refused = sockets.check_free().unwrap_err().to_string();
    for word in [&format!("unix:{}", file.display()), "no socket", "remove"] {
        assert!(refused.contains(word), "{word} in {refused}");
    }
    let none = ServerOptions {
        resp: None,
        ..ServerOptions::default()
    };
    none.check().unwrap_err();
}

#[test]
fn one_file_by_two_names_and_a_missing_folder_are_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("inner")).unwrap();
    let sockets = |resp: &str, memcached: &str| UnixSockets {
        resp: Some(folder.path().join(resp)),
        memcached: Some(folder.path().join(memcached)),
        ..UnixSockets::default()
    };
    let same = ServerOptions {
        unix: sockets("same", "inner/../same"),
        ..one_worker()
    };
    let refused = same.check().unwrap_err().to_string();
    assert!(refused.contains("same Unix domain socket"), "{refused}");
    let nowhere = sockets("here", "missing/there").check_free();
    let refused = nowhere.unwrap_err().to_string();
    let missing = folder.path().join("missing");
    let said = format!("there is no folder {}", missing.display());
    assert!(refused.contains(&said), "{refused}");
}

#[test]
fn a_mode_that_keeps_the_own_user_out_is_refused() {
    for mode in [0o060, 0o006, 0, 0o400, 0o1600] {
        let options = ServerOptions {
            unix: UnixSockets {
                mode,
                ..UnixSockets::default()
            },
            ..one_worker()
        };
        let refused = options.check().unwrap_err().to_string();
        assert!(refused.contains("0o200"), "{refused}");
    }
}

#[test]
fn memcached_statistics_name_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let options = ServerOptions {
        memcached: Some("127.0.0.1:0".parse().unwrap()),
        ..over(folder.path(), one_worker())
    };
    let started = Started::new(options);
    let path = folder.path().join("memcached");
    let mut stream = connect(&path);
    stream
        .write_all(b"stats settings\r\nstats conns\r\nquit\r\n")
        .unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    let port = started.server.addresses().memcached.unwrap();
    for line in [
        format!("STAT domain_socket {}\r\n", path.display()),
        format!("STAT memcached:addr tcp:{port}\r\n"),
        format!("STAT memcached-unix:addr unix:{}\r\n", path.display()),
        format!("STAT resp:addr tcp:{}\r\n", started.resp()),
        format!(
            "STAT resp-unix:addr unix:{}/resp\r\n",
            folder.path().display()
        ),
    ] {
        assert!(said.contains(&line), "{line} in {said}");
    }
}
