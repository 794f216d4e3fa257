//! `BEGIN … COMMIT` over each index: exact replies, conflicts, and what ends with whom.

use std::time::Duration;

use hedgerow::IndexKind;
use hedgerow_server::ServerOptions;
use hedgerow_testkit::over_each_index;

use crate::embedded::over_index::OverIndex;
use crate::support::{Value, array, bulk, eventually, failed, ok, one_worker, statistic};

over_each_index! {
    a_transaction_answers_at_once_and_commits_as_one,
    a_conflict_says_so_and_nothing_has_happened,
    databases_change_together,
    what_no_transaction_can_hold_is_refused_by_name,
    idle_transactions_end,
    transactions_end_with_their_connections,
}

fn a_transaction_answers_at_once_and_commits_as_one(index: IndexKind) {
    let over = OverIndex::new(index, one_worker());
    let (mut client, mut other) = (over.client(), over.client());
    assert_eq!(client.run("SET @number-a 1"), ok());
    assert_eq!(client.run("BEGIN"), ok());
    assert_eq!(client.run("GET @number-a"), bulk("1"));
    assert_eq!(client.run("INCRBY @number-a 4"), Value::Integer(5));
    assert_eq!(client.run("HSET @number-h f v"), Value::Integer(1));
    assert_eq!(client.run("MSET @number-b 2 @number-c 3"), ok());
    let keys = ["number-a", "number-b", "number-c", "number-h"];
    let all = Value::Array(keys.map(|key| over.bulk_key(key)).into());
    assert_eq!(client.run("RANGE - + KEYS"), all);
    assert_eq!(
        client.run("COUNTRANGE @number-a @number-c"),
        Value::Integer(3)
    );
    assert_eq!(
        client.run("DELRANGE @number-c @number-c"),
        Value::Integer(1)
    );
    // Nobody else sees any of it.
    assert_eq!(
        other.run("MGET @number-a @number-b"),
        array([bulk("1"), Value::Null])
    );
    assert_eq!(client.run("PING"), Value::Simple("PONG".into()));
    assert_eq!(client.run("COMMIT"), ok());
    assert_eq!(
        other.run("MGET @number-a @number-b"),
        array([bulk("5"), bulk("2")])
    );
    assert_eq!(other.run("EXISTS @number-c"), Value::Integer(0));
    assert_eq!(client.run("BEGIN SNAPSHOT"), ok());
    assert_eq!(client.run("SET @number-a lost"), ok());
    assert_eq!(client.run("ROLLBACK"), ok());
    assert_eq!(client.run("GET @number-a"), bulk("5"));
}

fn a_conflict_says_so_and_nothing_has_happened(index: IndexKind) {
    let over = OverIndex::new(index, one_worker());
    let (mut client, mut other) = (over.client(), over.client());
    assert_eq!(client.run("BEGIN"), ok());
    let count = client.run("COUNTRANGE @order-00 @order-99");
    assert_eq!(count, Value::Integer(0));
    assert_eq!(client.run("SET @orders-n 0"), ok());
    assert_eq!(other.run("SET @order-01 new"), ok());
    let refused = client.run("COMMIT");
    failed(&refused, &["CONFLICT ", "order-01", "run it again"]);
    assert_eq!(client.run("GET @orders-n"), Value::Null);
    failed(&client.run("COMMIT"), &["COMMIT without BEGIN"]);
    // Under snapshot isolation that is allowed; two writes of a key are not.
    assert_eq!(client.run("BEGIN snapshot"), ok());
    assert_eq!(client.run("GET @order-01"), bulk("new"));
    assert_eq!(client.run("SET @orders-n 1"), ok());
    assert_eq!(other.run("SET @order-01 newer"), ok());
    assert_eq!(client.run("COMMIT"), ok());
    assert_eq!(client.run("BEGIN SNAPSHOT"), ok());
    assert_eq!(client.run("SET @orders-n 2"), ok());
    assert_eq!(other.run("SET @orders-n 3"), ok());
    failed(&client.run("COMMIT"), &["CONFLICT ", "orders-n"]);
    assert_eq!(client.run("GET @orders-n"), bulk("3"));
    // So is the clearing of a database.
    assert_eq!(client.run("BEGIN"), ok());
    assert_eq!(client.run("INCR @orders-n"), Value::Integer(4));
    assert_eq!(other.run("FLUSHDB"), ok());
    failed(&client.run("COMMIT"), &["CONFLICT ", "cleared"]);
    assert_eq!(client.run("DBSIZE"), Value::Integer(0));
}

/// One transaction in two databases, one of which did not exist when it began.
fn databases_change_together(index: IndexKind) {
    let over = OverIndex::new(index, one_worker());
    let (mut client, mut other) = (over.client(), over.client());
    for end in ["ROLLBACK", "COMMIT"] {
        assert_eq!(client.run("SELECT 0"), ok());
        assert_eq!(client.run("BEGIN"), ok());
        assert_eq!(client.run("SET @balance1 60"), ok());
        assert_eq!(client.run("SELECT 5"), ok());
        assert_eq!(client.run("GET @balance1"), Value::Null);
        assert_eq!(client.run("SET @balance2 40"), ok());
        assert_eq!(
            client.run("COPY @balance2 @balance3 DB 6"),
            Value::Integer(1)
        );
        assert_eq!(client.run("DBSIZE"), Value::Integer(1));
        assert_eq!(client.run(end), ok());
        let is_done = Value::Integer(i64::from(end == "COMMIT"));
        for place in ["0 @balance1", "5 @balance2", "6 @balance3"] {
            let (database, key) = place.split_once(' ').unwrap();
            assert_eq!(other.run(&format!("SELECT {database}")), ok());
            assert_eq!(other.run(&format!("EXISTS {key}")), is_done, "{place}");
        }
    }
}

fn what_no_transaction_can_hold_is_refused_by_name(index: IndexKind) {
    let over = OverIndex::new(index, one_worker());
    let mut client = over.client();
    failed(&client.run("ROLLBACK"), &["ROLLBACK without BEGIN"]);
    failed(&client.run("BEGIN SERIALIZABLE NOW"), &["syntax"]);
    failed(&client.run("BEGIN SOMEHOW"), &["syntax"]);
    assert_eq!(client.run("BEGIN SERIALIZABLE"), ok());
    assert_eq!(client.run("SET @kept-key here"), ok());
    for command in [
        "MULTI",
        "WATCH k",
        "EXEC",
        "DISCARD",
        "FLUSHDB",
        "FLUSHALL ASYNC",
        "BEGIN",
        "SNAPSHOT",
        "SNAPSHOT LIST",
        "WITH nothing GET k",
    ] {
        let name = command.split(' ').next().unwrap();
        failed(&client.run(command), &[name, "COMMIT or ROLLBACK"]);
    }
    // What there is not is no end of it either.
    for command in ["SUBSCRIBE news", "DEBUG SLEEP 1", "BLPOP list 0", "GET"] {
        failed(&client.run(command), &["ERR "]);
    }
    // A command that is refused leaves no part of its effect, and the transaction goes on.
    failed(&client.run("INCR @kept-key"), &["not an integer"]);
    assert_eq!(client.run("COMMIT"), ok());
    assert_eq!(client.run("GET @kept-key"), bulk("here"));
    assert_eq!(client.run("MULTI"), ok());
    failed(&client.run("BEGIN"), &["not allowed"]);
    failed(&client.run("EXEC"), &["EXECABORT"]);
    assert_eq!(client.run("WATCH @kept-key"), ok());
    failed(&client.run("BEGIN"), &["UNWATCH"]);
}

fn idle_transactions_end(index: IndexKind) {
    let options = ServerOptions {
        transaction_idle_timeout: Duration::from_millis(1),
        ..one_worker()
    };
    let over = OverIndex::new(index, options);
    let mut client = over.client();
    let open = || statistic(&over.started, "open_transactions");
    assert_eq!(client.run("BEGIN"), ok());
    eventually(|| (open() == 0.0).then_some(()));
    let said = ["rolled back", "1 ms", "--transaction-idle-timeout"];
    failed(&client.run("SET @number-a 1"), &said);
    // Nothing runs outside of it unnoticed.
    failed(&client.run("SET @number-a 1"), &["rolled back", "ROLLBACK"]);
    failed(&client.run("BEGIN"), &["rolled back"]);
    failed(&client.run("COMMIT"), &["rolled back"]);
    assert_eq!(client.run("EXISTS @number-a"), Value::Integer(0));
    // Also while the client is silent.
    assert_eq!(client.run("BEGIN"), ok());
    eventually(|| (open() == 0.0).then_some(()));
    assert_eq!(client.run("ROLLBACK"), ok());
}

fn transactions_end_with_their_connections(index: IndexKind) {
    let over = OverIndex::new(index, one_worker());
    let open = || statistic(&over.started, "open_transactions");
    let (mut client, mut other) = (over.client(), over.client());
    assert_eq!(client.run("BEGIN"), ok());
    assert_eq!(client.run("SET @number-a 1"), ok());
    assert_eq!(open(), 1.0);
    drop(client);
    eventually(|| (open() == 0.0).then_some(()));
    assert_eq!(other.run("EXISTS @number-a"), Value::Integer(0));
    assert_eq!(other.run("BEGIN"), ok());
    assert_eq!(other.run("SET @number-a 1"), ok());
    assert_eq!(other.run("RESET"), Value::Simple("RESET".into()));
    assert_eq!(open(), 0.0);
    assert_eq!(other.run("EXISTS @number-a"), Value::Integer(0));
    failed(&other.run("COMMIT"), &["COMMIT without BEGIN"]);
    // And when somebody else ends the connection.
    let Value::Integer(id) = other.run("CLIENT ID") else {
        panic!("no number");
    };
    assert_eq!(other.run("BEGIN"), ok());
    assert_eq!(other.run("SET @number-a 1"), ok());
    let mut third = over.client();
    assert_eq!(
        third.run(&format!("CLIENT KILL ID {id}")),
        Value::Integer(1)
    );
    eventually(|| (open() == 0.0).then_some(()));
    assert_eq!(third.run("EXISTS @number-a"), Value::Integer(0));
}
