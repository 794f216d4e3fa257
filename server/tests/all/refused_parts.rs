//! Commands of several keys of which the engine refuses one: nothing of such a command happens,
//! alone and inside `MULTI`.

use hedgerow::{Db, IndexKind, MAX_KEY_BYTES};

use crate::support::{Client, Started, Value, array, bulk, ok, one_worker, start};

fn is_error(value: &Value) -> bool {
    matches!(value, Value::Error(_))
}

/// `bad` is a key that the engine refuses.
fn check(client: &mut Client, bad: &[u8]) {
    assert_eq!(client.run("SET kept0001 here"), ok());
    let commands: [&[&[u8]]; 5] = [
        &[b"MSET", b"half0001", b"1", bad, b"2"],
        &[
            b"MSET",
            b"kept0001",
            b"changed",
            bad,
            b"2",
            b"half0001",
            b"3",
        ],
        &[b"MSETNX", b"half0001", b"1", bad, b"2"],
        &[b"COPY", b"kept0001", bad],
        &[b"RENAME", b"kept0001", bad],
    ];
    for command in commands {
        assert!(is_error(&client.call(command)), "{command:?}");
    }
    for command in commands {
        assert_eq!(client.run("MULTI"), ok());
        client.call(&[b"SET", b"first001", b"before"]);
        client.call(command);
        client.call(&[b"SET", b"after001", b"after"]);
        let Value::Array(replies) = client.run("EXEC") else {
            panic!("no replies to {command:?}");
        };
        assert!(is_error(&replies[1]), "{replies:?}");
        assert_eq!((&replies[0], &replies[2]), (&ok(), &ok()));
        let found = client.run("MGET kept0001 half0001 first001 after001");
        let expected = [bulk("here"), Value::Null, bulk("before"), bulk("after")];
        assert_eq!(found, array(expected), "{}", command[0].escape_ascii());
        client.run("DEL first001 after001");
    }
    assert_eq!(client.run("DBSIZE"), Value::Integer(1));
}

#[test]
fn a_command_of_several_keys_changes_nothing_if_one_is_too_long() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    let too_long = vec![b'k'; MAX_KEY_BYTES + 1];
    check(&mut client, &too_long);
    // A removal too: the others refuse such keys only when they store them.
    client.run("MULTI");
    client.call(&[b"DEL", b"kept0001", &too_long]);
    let Value::Array(replies) = client.run("EXEC") else {
        panic!("no replies");
    };
    assert!(is_error(&replies[0]));
    assert_eq!(client.run("EXISTS kept0001"), Value::Integer(1));
    // Nor does it say that it changed anything, by itself or between `BEGIN` and `COMMIT`.
    for command in ["DEL", "UNLINK"] {
        for begin in ["PING", "BEGIN"] {
            client.run(begin);
            let refused = client.call(&[command.as_bytes(), b"kept0001", &too_long]);
            let Value::Error(text) = &refused else {
                panic!("{refused:?}");
            };
            assert!(text.starts_with("ERR the key has"), "{text}");
            assert_eq!(client.run("EXISTS kept0001"), Value::Integer(1));
            client.run("COMMIT");
        }
    }
    assert_eq!(client.run("EXISTS kept0001"), Value::Integer(1));
}

#[test]
fn a_command_of_several_keys_changes_nothing_if_one_has_another_width() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().index(IndexKind::Bst).open(dir.path());
    let db = std::sync::Arc::new(db.unwrap());
    let server = start(std::sync::Arc::clone(&db), one_worker()).unwrap();
    let started = Started { server, db, dir };
    let mut client = started.client();
    for bad in [&b""[..], b"seven b", b"nine byte"] {
        check(&mut client, bad);
        client.run("FLUSHALL");
    }
    // What cannot be there can be removed.
    assert_eq!(client.run("DEL nine_byte other"), Value::Integer(0));
}
