//! Moves money between accounts from several threads: transactions keep the sum.
//!
//! `cargo run -p hedgerow --example transfer -- /tmp/bank`

use hedgerow::{Db, Keyspace, Locks, Result, WriteOptions};

const ACCOUNTS: u64 = 10;
const START: i64 = 100;

fn balance(value: Option<Vec<u8>>) -> i64 {
    value
        .and_then(|bytes| Some(i64::from_le_bytes(bytes.try_into().ok()?)))
        .unwrap_or(0)
}

fn transfer(db: &Db, accounts: &Keyspace, from: u64, to: u64, amount: i64) -> Result<bool> {
    let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
    let locks = [(accounts, &from[..]), (accounts, &to[..])];
    let (moved, _) = db.transact(Locks::Keys(&locks), &WriteOptions::default(), |tx| {
        let available = balance(tx.get(accounts, &from)?);
        if from == to || available < amount {
            return Ok(false);
        }
        let there = balance(tx.get(accounts, &to)?);
        tx.put(accounts, &from, &(available - amount).to_le_bytes())?;
        tx.put(accounts, &to, &(there + amount).to_le_bytes())?;
        Ok(true)
    })?;
    Ok(moved)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args().nth(1).ok_or("usage: transfer DIRECTORY")?;
    let db = Db::open(&dir)?;
    let accounts = db.keyspace("accounts")?;
    let mut opening = db.batch();
    for account in 0..ACCOUNTS {
        opening.put(&accounts, &account.to_be_bytes(), &START.to_le_bytes());
    }
    opening.commit(WriteOptions::default())?;

    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (db, accounts) = (&db, &accounts);
            scope.spawn(move || -> Result<()> {
                for i in 0..1000 {
                    let (from, to) = ((i * 3 + thread) % ACCOUNTS, (i * 7) % ACCOUNTS);
                    transfer(db, accounts, from, to, (i % 20) as i64)?;
                }
                Ok(())
            });
        }
    });
    let total: i64 = accounts
        .range(..)?
        .map(|e| Ok(balance(e?.value().map(<[u8]>::to_vec))))
        .sum::<hedgerow::Result<i64>>()?;
    println!("{ACCOUNTS} accounts hold {total} together");
    assert_eq!(total, ACCOUNTS as i64 * START);
    db.close()?;
    Ok(())
}
