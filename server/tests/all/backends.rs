//! The server over a backend that asks closures again, joins puts and reads, and lacks what HBase
//! lacks: the same requests get the same replies as over the engine, or a refusal that names what
//! is lacking, and then nothing happened.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use hedgerow::backend::Backend;
use hedgerow::{Db, Durability};
use hedgerow_server::{Server, ServerOptions};

use crate::embedded::asked_again::{
    AT_DOOR, AskedAgain, BECAUSE, DOOR, ENTERED, GATE, HIDES_ALL, STAYS_FULL, UNREADABLE,
};
use crate::support::{
    Client, Started, TIMEOUT, Value, array, bulk, failed, monitoring, ok, one_worker,
    request as encode,
};

fn over_asked_again() -> (Server<AskedAgain>, Client) {
    let db = Db::builder().open_in_memory().unwrap();
    let server = Server::start(Arc::new(AskedAgain(db)), one_worker()).unwrap();
    let client = Client::connect(server.addresses().resp.unwrap());
    (server, client)
}

/// Requests whose commands depend on what is there, in their order.
const DEPENDING: &str = include_str!("depending_requests.txt");

#[test]
fn closures_that_are_asked_again_reply_once() {
    let (_server, mut asked_again) = over_asked_again();
    let started = Started::in_memory(one_worker());
    let mut embedded = started.client();
    for request in DEPENDING.lines() {
        let expected = embedded.run(request);
        assert_eq!(asked_again.run(request), expected, "{request}");
    }
}

/// A connection that one run of a queue ended is not gone for the next.
#[test]
fn a_queue_that_runs_again_ends_connections_once() {
    let (server, mut client) = over_asked_again();
    let mut other = Client::connect(server.addresses().resp.unwrap());
    let Value::Integer(id) = other.run("CLIENT ID") else {
        panic!("CLIENT ID");
    };
    let kill = format!("CLIENT KILL ID {id}");
    for line in ["MULTI", &kill, &kill, "GET a"] {
        client.run(line);
    }
    let replies = array([Value::Integer(1), Value::Integer(0), Value::Null]);
    assert_eq!(client.run("EXEC"), replies);
    assert_eq!(other.try_reply(), None);
    assert_eq!(client.run(&kill), Value::Integer(0));
}

#[test]
fn puts_and_reads_of_many_connections_are_joined_in_the_order_of_each() {
    let (server, _) = over_asked_again();
    let address = server.addresses().resp.unwrap();
    let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(address)).collect();
    for (c, client) in clients.iter_mut().enumerate() {
        for i in 0..200 {
            let key = format!("key {c} {}", i % 7);
            let value = format!("{i}");
            client.send(&encode(&[b"SET", key.as_bytes(), value.as_bytes()]));
            client.send(&encode(&[b"GET", key.as_bytes()]));
        }
    }
    for client in &mut clients {
        for i in 0..200 {
            assert_eq!(client.reply(), Value::Simple("OK".into()));
            assert_eq!(client.reply(), Value::Bulk(format!("{i}").into_bytes()));
        }
    }
}

#[test]
fn single_requests_of_different_connections_run_at_the_same_time() {
    let (server, mut held) = over_asked_again();
    let address = server.addresses().resp.unwrap();
    let mut clients = [Client::connect(address), Client::connect(address)];
    for client in &mut clients {
        // From here on small replies are expected, which may be made at the same time.
        client.run("PING");
    }
    // The only worker waits while the others' requests come, and has both in its next tick.
    held.send(&encode(&[b"INCR", b"gate"]));
    ENTERED.wait_for(1).unwrap();
    for client in &mut clients {
        client.send(&encode(&[b"INCR", b"meeting"]));
    }
    GATE.come();
    assert_eq!(held.reply(), Value::Integer(1));
    let [one, other] = clients.each_mut().map(Client::reply);
    let sums = [[1, 2], [2, 1]].map(|sums| sums.map(Value::Integer));
    assert!(sums.contains(&[one, other]));
}

#[test]
fn single_requests_of_each_connection_run_in_their_order() {
    const CLIENTS: usize = 40;
    const ROUNDS: i64 = 60;
    let (server, mut client) = over_asked_again();
    let address = server.addresses().resp.unwrap();
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(address)).collect();
    for (c, client) in clients.iter_mut().enumerate() {
        let key = format!("key {c}");
        for i in 0..ROUNDS {
            let field = format!("{i}");
            client.send(&encode(&[b"INCR", b"common"]));
            client.send(&encode(&[b"HSET", key.as_bytes(), field.as_bytes(), b"x"]));
            client.send(&encode(&[b"HLEN", key.as_bytes()]));
            client.send(&encode(&[b"HGET", key.as_bytes(), field.as_bytes()]));
            client.send(&encode(&[b"NOSUCH"]));
        }
    }
    for client in &mut clients {
        let mut last = 0;
        for i in 0..ROUNDS {
            let Value::Integer(sum) = client.reply() else {
                panic!("INCR");
            };
            assert!(sum > last, "{sum} behind {last}");
            last = sum;
            assert_eq!(client.reply(), Value::Integer(1));
            assert_eq!(client.reply(), Value::Integer(i + 1));
            assert_eq!(client.reply(), bulk("x"));
            assert!(matches!(client.reply(), Value::Error(_)));
        }
    }
    let all = CLIENTS as i64 * ROUNDS;
    assert_eq!(client.run("GET common"), bulk(&all.to_string()));
    let Value::Bulk(info) = client.run("INFO commandstats") else {
        panic!("INFO");
    };
    let info = String::from_utf8(info).unwrap();
    assert!(
        info.contains(&format!("cmdstat_incr:calls={all},")),
        "{info}"
    );
}

#[test]
fn what_a_backend_lacks_is_refused_by_name_and_does_nothing() {
    let (_server, mut client) = over_asked_again();
    client.run("SET a 1");
    client.run("SET b 2");
    for request in [
        "RENAME a c",
        "RENAMENX a c",
        "COPY a c",
        "MOVE a 1",
        "MSETNX x 1 y 2",
        "BEGIN",
        "SNAPSHOT",
        "SAVE",
        "BGSAVE",
        "BACKUP name",
        "RANDOMKEY",
        "WITH token GET a",
    ] {
        let Value::Error(error) = client.run(request) else {
            panic!("{request} is not refused");
        };
        assert!(
            error.starts_with("UNSUPPORTED ") && error.ends_with(BECAUSE),
            "{error}"
        );
    }
    for request in ["MULTI", "SET a 9", "SET b 9"] {
        client.run(request);
    }
    let Value::Error(error) = client.run("EXEC") else {
        panic!("two rows");
    };
    assert!(
        error.starts_with("UNSUPPORTED a commit of several rows: "),
        "{error}"
    );
    client.run("MULTI");
    client.run("FLUSHDB");
    assert!(matches!(client.run("EXEC"), Value::Error(_)));
    assert_eq!(client.run("GET a"), bulk("1"));
    assert_eq!(client.run("GET b"), bulk("2"));
    assert_eq!(client.run("DBSIZE"), Value::Integer(2));
    let Value::Bulk(info) = client.run("INFO backend") else {
        panic!("INFO");
    };
    let info = String::from_utf8(info).unwrap();
    assert!(info.contains("\r\nbackend:asked-again\r\n"), "{info}");
    assert!(
        info.contains(&format!("backend_lacks_several_rows:{BECAUSE}")),
        "{info}"
    );
}

#[test]
fn a_value_of_several_keys_of_a_request_is_held_once() {
    let db = Db::builder().open_in_memory().unwrap();
    let options = ServerOptions {
        client_memory_bytes: 4 << 20,
        ..one_worker()
    };
    let server = Server::start(Arc::new(AskedAgain(db)), options).unwrap();
    let mut client = Client::connect(server.addresses().resp.unwrap());
    let value = vec![b'v'; 1 << 20];
    client.call(&[b"SET", b"large", &value]);
    client.run("SET small 1");
    let mut words: Vec<&[u8]> = vec![b"MGET"];
    words.extend([&b"large"[..], b"small", b"none"].iter().cycle().take(90));
    let Value::Array(replies) = client.call(&words) else {
        panic!("30 MiB that are held once, in 4 MiB");
    };
    let expected = [Value::Bulk(value), bulk("1"), Value::Null];
    assert_eq!(replies.len(), 90);
    assert!(replies.iter().eq(expected.iter().cycle().take(90)));
}

/// A backend that does not count its rows, and keeps none of them in this process's memory.
#[test]
fn what_a_backend_does_not_count_is_left_out() {
    let db = Db::builder().open_in_memory().unwrap();
    let server = Server::start(Arc::new(AskedAgain(db)), monitoring::options()).unwrap();
    let mut client = Client::connect(server.addresses().resp.unwrap());
    client.run("SET a 1");
    let info = monitoring::info(&mut client, "everything");
    assert_eq!(monitoring::number(&info, "mem_fragmentation_ratio"), 0.0);
    let index = monitoring::field(&info, "index_default");
    assert_eq!(index, Some("index=asked-again"), "{info}");
    let page = monitoring::page(server.addresses().http.unwrap());
    assert!(!page.contains("hedgerow_index_rows"), "{page}");
}

/// Where nobody can say which databases there are, `FLUSHALL` cannot say that all are empty.
#[test]
fn flushall_fails_where_not_all_databases_are_known() {
    let (_server, mut client) = over_asked_again();
    client.run("SET a 1");
    assert_eq!(client.run("FLUSHALL"), ok());
    client.run("SET a 1");
    client.run(&HIDES_ALL.replace("db", "SELECT "));
    assert_eq!(client.run("SET b 2"), ok());
    let Value::Error(error) = client.run("FLUSHALL") else {
        panic!("it says that all databases are empty");
    };
    assert!(error.contains("nobody can say"), "{error}");
    assert_eq!(client.run("FLUSHDB"), ok());
}

/// Of several databases some are empty then, and the reply says so.
#[test]
fn flushall_that_fails_half_way_says_what_it_changed() {
    let (_server, mut client) = over_asked_again();
    for select in ["SELECT 1", &STAYS_FULL.replace("db", "SELECT "), "SELECT 0"] {
        assert_eq!(client.run(select), ok());
        assert_eq!(client.run("SET a 1"), ok());
    }
    let words = ["UNKNOWN 2 of 3 databases were emptied", "nobody can empty"];
    failed(&client.run("FLUSHALL"), &words);
    assert_eq!(client.run("GET a"), Value::Null);
    assert_eq!(client.run(&STAYS_FULL.replace("db", "SELECT ")), ok());
    assert_eq!(client.run("GET a"), bulk("1"));
    // Where nothing was changed, the error says no more than why.
    failed(&client.run("FLUSHDB"), &["ERR ", "nobody can empty"]);
}

/// Nobody knows more of a write elsewhere than its acknowledgement said.
#[test]
fn waitaof_promises_nothing_of_writes_that_were_not_synced_elsewhere() {
    let reply = |local| array([Value::Integer(local), Value::Integer(0)]);
    for (durability, known) in [
        (Durability::None, 0),
        (Durability::Periodic, 0),
        (Durability::Sync, 1),
    ] {
        let db = Db::builder().open_in_memory().unwrap();
        let options = ServerOptions {
            durability,
            ..one_worker()
        };
        let server = Server::start(Arc::new(AskedAgain(db)), options).unwrap();
        let mut client = Client::connect(server.addresses().resp.unwrap());
        assert_eq!(client.run("WAITAOF 1 0 0"), reply(1), "it wrote nothing");
        assert_eq!(client.run("SET a 1"), ok());
        assert_eq!(client.run("WAITAOF 1 0 0"), reply(known), "{durability:?}");
        assert_eq!(client.run("INCR a"), Value::Integer(2));
        assert_eq!(client.run("WAITAOF 1 0 0"), reply(known), "{durability:?}");
    }
}

#[test]
fn a_command_that_is_refused_makes_no_database() {
    let db = Arc::new(AskedAgain(Db::builder().open_in_memory().unwrap()));
    let server = Server::start(Arc::clone(&db), one_worker()).unwrap();
    let mut client = Client::connect(server.addresses().resp.unwrap());
    client.run("SET a 1");
    for refused in ["MOVE a 5", "COPY a b DB 7"] {
        failed(&client.run(refused), &["UNSUPPORTED ", BECAUSE]);
        client.run("MULTI");
        client.run(refused);
        failed(&client.run("EXEC"), &["UNSUPPORTED ", BECAUSE]);
    }
    assert_eq!(db.keyspaces().unwrap(), ["default"]);
    assert_eq!(client.run("GET a"), bulk("1"));
}

/// Beside the reply of a connection that goes on with a request in the same batch.
#[test]
fn a_read_that_fails_ends_its_own_reply_and_no_other() {
    let db = Db::builder().open_in_memory().unwrap();
    let options = ServerOptions {
        memcached: Some("127.0.0.1:0".parse().unwrap()),
        ..one_worker()
    };
    let server = Server::start(Arc::new(AskedAgain(db)), options).unwrap();
    let mut held = Client::connect(server.addresses().resp.unwrap());
    let names: Vec<String> = (0..300).map(|i| format!("k{i}")).collect();
    for name in &names {
        assert_eq!(held.call(&[b"SET", name.as_bytes(), b"v"]), ok());
    }
    let address = server.addresses().memcached.unwrap();
    let mut streams = [(); 2].map(|()| TcpStream::connect(address).unwrap());
    let expect = |stream: &mut TcpStream, expected: &str| {
        let mut received = vec![0; expected.len()];
        stream.read_exact(&mut received).unwrap();
        assert_eq!(String::from_utf8_lossy(&received), expected);
    };
    for stream in &mut streams {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(b"mn\r\n").unwrap();
        expect(stream, "MN\r\n");
    }
    let item = |name: &String| format!("VALUE {name} 0 1\r\nv\r\n");
    let items = |names: &[String]| names.iter().map(item).collect::<String>();
    let unreadable = String::from_utf8_lossy(UNREADABLE);
    let error = "SERVER_ERROR nobody can read it\r\n";
    let [early, late] = &mut streams;

    // More keys than a batch has, of which two of the first cannot be read.
    let (few, others) = names.split_at(10);
    let (between, others) = others.split_at(10);
    let line = format!(
        "get {} {unreadable} {} {unreadable} {}\r\nmn\r\n",
        few.join(" "),
        between.join(" "),
        others.join(" ")
    );
    early.write_all(line.as_bytes()).unwrap();
    expect(early, &format!("{}{error}MN\r\n", items(few)));

    // The only worker waits while both come. The first batch has as many requests of `early` as it
    // takes of one connection, and the first keys of `late`; the second has the other keys, behind
    // the one that cannot be read.
    held.send(&encode(&[b"INCR", b"door"]));
    AT_DOOR.wait_for(1).unwrap();
    let line = format!("{}get {unreadable}\r\nmn\r\n", "get k0\r\n".repeat(64));
    early.write_all(line.as_bytes()).unwrap();
    let line = format!("get {}\r\nmn\r\n", names.join(" "));
    late.write_all(line.as_bytes()).unwrap();
    DOOR.come();
    assert_eq!(held.reply(), Value::Integer(1));
    let found = format!("{}END\r\n", items(&names[..1])).repeat(64);
    expect(early, &format!("{found}{error}MN\r\n"));
    expect(late, &format!("{}END\r\nMN\r\n", items(&names)));
}

#[test]
fn a_database_in_memory_refuses_to_be_saved_in_the_background_too() {
    let started = Started::in_memory(one_worker());
    let mut client = started.client();
    for command in ["SAVE", "BGSAVE", "BGSAVE SCHEDULE"] {
        let Value::Error(text) = client.run(command) else {
            panic!("{command}");
        };
        assert!(text.contains("lives in memory alone"), "{text}");
    }
}
