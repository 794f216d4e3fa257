//! Memcached clients of an index whose keys have 8 bytes.

use std::sync::Arc;

use hedgerow::{Db, IndexKind};
use hedgerow_server::ServerOptions;

use crate::memcached::{ask, connect};
use crate::support::{Started, Value, bulk};

/// A key that the keyspace's index does not take is the client's mistake, over both protocols, and
/// changes nothing.
#[test]
fn keys_of_another_width_are_refused_by_a_binary_tree() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().index(IndexKind::Bst).open(dir.path());
    let db = Arc::new(db.unwrap());
    let options = ServerOptions {
        memcached: "127.0.0.1:0".parse().ok(),
        workers: 1,
        ..ServerOptions::default()
    };
    let server = crate::support::start(Arc::clone(&db), options).unwrap();
    let server = Started { server, db, dir };
    let mut stream = connect(&server);
    let answer = ask(
        &mut stream,
        b"set three 0 0 1\r\nx\r\nset eight--8 0 0 1\r\ny\r\nget three\r\nget eight--8\r\n",
    );
    let (refused, rest) = answer.split_once("\r\n").unwrap();
    assert!(
        refused.starts_with("CLIENT_ERROR the key has 5 bytes"),
        "{refused}"
    );
    assert!(
        refused.contains("bst") && refused.contains("8 bytes"),
        "{refused}"
    );
    assert_eq!(rest, "STORED\r\nEND\r\nVALUE eight--8 0 1\r\ny\r\nEND\r\n");
    let mut client = server.client();
    for refused in ["SET three x", "HSET three f v", "INCR three"] {
        match client.run(refused) {
            Value::Error(text) => assert!(text.contains("the key has 5 bytes"), "{text}"),
            other => panic!("{refused}: {other:?}"),
        }
    }
    assert_eq!(client.run("DBSIZE"), Value::Integer(1));
    assert_eq!(client.run("GET eight--8"), bulk("y"));
}
