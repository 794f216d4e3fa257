//! Commands on plain keys whose answers the random comparison with Redis leaves out: what moves
//! with a key, what is atomic, what is drawn at random.

use std::collections::BTreeSet;

use crate::support::{Started, Value, bulk, error, ok, one_worker, put};

pub(crate) fn number(value: Value) -> i64 {
    match value {
        Value::Integer(number) => number,
        other => panic!("{other:?} is no number"),
    }
}

#[test]
fn a_select_that_is_refused_leads_nowhere() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    for wrong in ["+5", "05", " 5", "16", "-1", "5x"] {
        client.run("MULTI");
        client.call(&[b"SELECT", wrong.as_bytes()]);
        client.run("SET k v");
        let Value::Array(replies) = client.run("EXEC") else {
            panic!("the transaction runs");
        };
        assert!(matches!(&replies[0], Value::Error(_)), "{wrong:?}");
        assert_eq!(replies[1], ok(), "{wrong:?}");
    }
}

#[test]
fn expiries_at_the_end_of_time_are_told() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    client.run("SET k v");
    assert_eq!(
        client.run("PEXPIREAT k 9223372036854775807"),
        Value::Integer(1)
    );
    assert_eq!(client.run("PEXPIRETIME k"), Value::Integer(i64::MAX));
    assert_eq!(
        client.run("EXPIRETIME k"),
        Value::Integer(i64::MAX / 1000 + 1)
    );
    assert!(number(client.run("TTL k")) > 0 && number(client.run("PTTL k")) > 0);
    // Further than a signed number goes: memcached's largest times, and the library's.
    let options = hedgerow::WriteOptions {
        expiry_ms: Some(u64::MAX),
        ..hedgerow::WriteOptions::default()
    };
    put(&*started.db, b"far", b"v", &options);
    assert_eq!(client.run("PEXPIRETIME far"), Value::Integer(i64::MAX));
    assert!(number(client.run("TTL far")) > 0);
    assert_eq!(client.run("EXPIRE far 100 LT"), Value::Integer(1));
    client.run("SET near v EX 5");
    assert_eq!(
        client.run("PEXPIREAT near 9223372036854775807 GT"),
        Value::Integer(1)
    );
}

#[test]
fn random_fields_are_drawn_from_all_alike() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    let fields: Vec<String> = (0..8).map(|i| format!("f{i}")).collect();
    for field in &fields {
        client.run(&format!("HSET h {field} of-{field}"));
    }
    let bulks = |value: Value| -> Vec<String> {
        let Value::Array(items) = value else {
            panic!("an array")
        };
        let text = |item| match item {
            Value::Bulk(bytes) => String::from_utf8(bytes).unwrap(),
            other => panic!("{other:?}"),
        };
        items.into_iter().map(text).collect()
    };
    // 8 fields, 4,000 draws: each 500 times but for chance (a standard deviation is 21).
    let drawn = bulks(client.run("HRANDFIELD h -4000"));
    for field in &fields {
        let times = drawn.iter().filter(|drawn| *drawn == field).count();
        assert!((350..650).contains(&times), "{field}: {times} of 4,000");
    }
    for count in 0..10 {
        let drawn = bulks(client.run(&format!("HRANDFIELD h {count} WITHVALUES")));
        let names: BTreeSet<&String> = drawn.iter().step_by(2).collect();
        assert_eq!((names.len(), drawn.len()), (count.min(8), 2 * count.min(8)));
        let fits = |pair: &[String]| pair[1] == format!("of-{}", pair[0]);
        assert!(drawn.chunks(2).all(fits));
    }
    assert!(matches!(client.run("HRANDFIELD h"), Value::Bulk(_)));
    client.run("HELLO 3");
    let pair = client.run("HRANDFIELD h 1 WITHVALUES");
    assert!(
        matches!(&pair, Value::Array(pairs) if matches!(&pairs[0], Value::Array(p) if p.len() == 2))
    );
}

#[test]
fn values_say_how_they_are_kept() {
    let started = Started::new(one_worker());
    let mut client = started.client();
    client.run("SET number -12");
    client.run("SET short 012");
    client.run(&format!("SET long {}", "x".repeat(45)));
    client.run("HSET small f v");
    client.run(&format!("HSET large f {}", "x".repeat(65)));
    for (key, encoding) in [
        ("number", "int"),
        ("short", "embstr"),
        ("long", "raw"),
        ("small", "listpack"),
        ("large", "hashtable"),
    ] {
        assert_eq!(
            client.run(&format!("OBJECT ENCODING {key}")),
            bulk(encoding)
        );
        let bytes = number(client.run(&format!("MEMORY USAGE {key}")));
        assert!((15..200).contains(&bytes), "{key}: {bytes}");
    }
    client.run("CONFIG SET hash-max-listpack-value 100");
    assert_eq!(client.run("OBJECT ENCODING large"), bulk("listpack"));
    let untracked = "ERR idle time is not tracked: rows keep no access times";
    assert_eq!(client.run("OBJECT IDLETIME long"), error(untracked));
}
