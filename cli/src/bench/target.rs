//! What a workload runs against: a database in this process, or a server over RESP.

use std::ops::{Bound, ControlFlow};

use hedgerow::{Db, Direction, Keyspace, WriteOptions};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::mix::{Operation, key};
use super::resp::Connection;
use crate::arguments::Bench;
use crate::error::Result;

/// The database or server.
pub(crate) enum Target {
    Database(Box<Db>),
    Server,
}

impl Target {
    pub(crate) fn open(bench: &Bench) -> Result<Target> {
        match &bench.data {
            None => Ok(Target::Server),
            Some(dir) => {
                let db = Db::builder()
                    .workers(bench.threads)
                    .durability(bench.durability.into())
                    .open(dir)?;
                Ok(Target::Database(Box::new(db)))
            }
        }
    }

    pub(crate) fn close(self) -> Result<()> {
        if let Target::Database(db) = self {
            db.close()?;
        }
        Ok(())
    }

    /// A client of its own for each thread.
    pub(crate) fn worker(&self, bench: &Bench) -> Result<Worker> {
        let client = match (self, &bench.resp) {
            (Target::Server, Some(address)) => Client::Server(Connection::open(address)?),
            (Target::Database(db), _) => Client::Database(db.keyspace("ycsb")?),
            (Target::Server, None) => unreachable!("clap asks for --data or --resp"),
        };
        let mut value = vec![0; bench.value_bytes];
        SmallRng::seed_from_u64(bench.seed).fill(&mut value[..]);
        Ok(Worker {
            client,
            value,
            missing: 0,
        })
    }
}

enum Client {
    Database(Keyspace),
    Server(Connection),
}

/// One client.
pub(crate) struct Worker {
    client: Client,
    value: Vec<u8>,
    missing: u64,
}

impl Worker {
    /// Reads that did not find their record.
    pub(crate) fn missing(&self) -> u64 {
        self.missing
    }

    pub(crate) fn insert(&mut self, record: u64) -> Result<()> {
        let key = key(record);
        match &mut self.client {
            Client::Database(keyspace) => {
                keyspace.put_with(key.as_bytes(), &self.value, &WriteOptions::default())?;
            }
            Client::Server(connection) => {
                connection.send(&[b"SET", key.as_bytes(), &self.value]);
            }
        }
        Ok(())
    }

    pub(crate) fn perform(&mut self, operation: Operation) -> Result<()> {
        match operation {
            Operation::Read(record) => self.read(record),
            Operation::Update(record) | Operation::Insert(record) => self.insert(record),
            Operation::Scan(record, rows) => self.scan(record, rows),
            Operation::ReadModifyWrite(record) => {
                self.read(record)?;
                self.insert(record)
            }
        }
    }

    fn read(&mut self, record: u64) -> Result<()> {
        let key = key(record);
        match &mut self.client {
            Client::Database(keyspace) => {
                let length = keyspace.read(key.as_bytes(), |row| row.value().map(<[u8]>::len))?;
                self.missing += u64::from(length.flatten().is_none());
            }
            Client::Server(connection) => connection.send(&[b"GET", key.as_bytes()]),
        }
        Ok(())
    }

    fn scan(&mut self, record: u64, rows: usize) -> Result<()> {
        let key = key(record);
        match &mut self.client {
            Client::Database(keyspace) => {
                let mut left = rows;
                let from = (
                    Bound::Included(key.into_bytes()),
                    Bound::Unbounded::<Vec<u8>>,
                );
                keyspace.scan(from, Direction::Forward, |_, _| {
                    left -= 1;
                    if left == 0 {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                })?;
            }
            Client::Server(connection) => {
                let rows = rows.to_string();
                connection.send(&[b"RANGE", key.as_bytes(), b"+", b"LIMIT", rows.as_bytes()]);
            }
        }
        Ok(())
    }

    /// Sends what is queued and takes all replies (against a server).
    pub(crate) fn finish(&mut self) -> Result<()> {
        if let Client::Server(connection) = &mut self.client {
            self.missing += connection.finish()?;
        }
        Ok(())
    }
}
