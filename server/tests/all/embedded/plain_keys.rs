//! Moves of rows: what moves with a key, and what is atomic.

use crate::plain_keys::number;
use crate::support::{Started, Value, array, bulk, ok, one_worker};

#[test]
fn a_row_moves_with_all_that_belongs_to_it() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    client.run("SET a value PX 5000000");
    client.run("SET b other EX 100");
    assert_eq!(client.run("RENAME a b"), ok());
    assert_eq!(client.run("GET b"), bulk("value"));
    assert!(
        number(client.run("PTTL b")) > 4_000_000,
        "the expiry came along"
    );
    client.run("SET c stays");
    assert_eq!(client.run("RENAME c b"), ok());
    assert_eq!(
        client.run("TTL b"),
        Value::Integer(-1),
        "and the old one went"
    );
    client.run("HSET h f 1 g 2");
    client.run("EXPIRE h 5000");
    assert_eq!(client.run("COPY h h DB 3"), Value::Integer(1));
    client.run("HSET h f changed");
    client.run("SELECT 3");
    assert_eq!(client.run("HMGET h f g"), array([bulk("1"), bulk("2")]));
    assert!(number(client.run("TTL h")) > 4000);
    assert_eq!(
        client.run("MOVE h 0"),
        Value::Integer(0),
        "it is taken there"
    );
    // A row that is replaced leaves none of its fields.
    client.run("HSET target f 9 z 9");
    assert_eq!(client.run("COPY h target REPLACE"), Value::Integer(1));
    assert_eq!(
        client.run("HMGET target f g z"),
        array([bulk("1"), bulk("2"), Value::Null])
    );
    client.run("DEL target");
    assert_eq!(client.run("MOVE h 4"), Value::Integer(1));
    assert_eq!(client.run("EXISTS h"), Value::Integer(0));
    client.run("SELECT 4");
    assert_eq!(client.run("HLEN h"), Value::Integer(2));
}

#[test]
fn moves_are_one_commit_and_change_what_is_watched() {
    let started = Started::new(one_worker());
    let (mut client, mut other) = (started.client(), started.client());
    for (prepare, change) in [
        ("SET a 1", "RENAME a b"),
        ("SET b 1", "RENAME b a"),
        ("SET a 1", "MOVE a 2"),
        ("SET b 1", "COPY b a"),
    ] {
        client.run(prepare);
        client.run("WATCH a");
        other.run(change);
        client.run("MULTI");
        client.run("PING");
        assert_eq!(client.run("EXEC"), Value::Null, "{change}");
        client.run("FLUSHALL");
    }
    // Within a transaction both keys are locked, in another database too.
    client.run("SET a 1");
    client.send(
        b"MULTI\r\nCOPY a b DB 5\r\nSELECT 5\r\nRENAME b c\r\nMOVE c 6\r\nSELECT 6\r\nGET \
        c\r\nEXEC\r\n",
    );
    let mut last = client.reply();
    for _ in 0..7 {
        last = client.reply();
    }
    let one = Value::Integer(1);
    let expected = array([one.clone(), ok(), ok(), one, ok(), bulk("1")]);
    assert_eq!(last, expected);
}
