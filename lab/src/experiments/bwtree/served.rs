//! A server that is loaded and played to.

use std::ops::Range;

use hedgerow_lab_data::workload::{Kind, Workload as Mix};
use hedgerow_lab_data::{KeySet, Keys};
use hedgerow_lab_peers::{Protocol, ServerSettings, mysql_client};
use hedgerow_lab_report::Better;

use crate::experiment::{Answer, MOST_CONNECTIONS};
use crate::machine::pin_this_thread;
use crate::process::Server;
use crate::servers::{CLIENT_CORE, start_on};
use crate::wire::{
    Script, Step, index_counter, load_rows, play_each, play_rows, script, steps, transactions,
    watched,
};
use crate::{LabError, Result};

/// Bytes of a value.
const VALUE_BYTES: usize = 8;

/// Requests that a loading connection sends at once, and how many connections load.
const LOAD_DEPTH: usize = 64;
const LOADING: usize = 4;

/// A started server and the keys of its records.
pub(super) struct Served {
    protocol: Protocol,
    server: Server,
    keys: Keys,
    is_ours: bool,
}

/// What playing took.
pub(super) struct Played {
    pub(super) operations: usize,
    /// By the clock.
    pub(super) seconds: f64,
    /// Seconds of processors that the server's threads used.
    pub(super) server_seconds: f64,
    /// The share of its core that the client used.
    pub(super) client_busy: f64,
}

impl Played {
    pub(super) fn kops_per_second(&self) -> f64 {
        self.operations as f64 / self.seconds / 1000.0
    }

    pub(super) fn server_us_per_operation(&self) -> f64 {
        self.server_seconds * 1e6 / self.operations as f64
    }

    /// Adds both, under a name.
    pub(super) fn push(&self, answer: &mut Answer, name: &str) {
        let rate = self.kops_per_second();
        answer.push(name, "kops/s", Better::Higher, rate);
        let column = format!("{name}, server time");
        let each = self.server_us_per_operation();
        answer.push(&column, "µs/operation", Better::Lower, each);
    }
}

impl Served {
    /// Starts a server, on its core if one is given. The client, this thread, moves to its own.
    pub(super) fn start(
        contender: &str,
        set: &KeySet,
        records: usize,
        threads: usize,
        core: Option<usize>,
    ) -> Result<Self> {
        let settings = ServerSettings {
            memory_bytes: records as u64 * 1000 + (256 << 20),
            threads,
            connections: 2 * MOST_CONNECTIONS,
            readers_port: 0,
        };
        let (peer, server) = start_on(core, contender, &settings)?;
        // The threads of a client inherit this.
        pin_this_thread(CLIENT_CORE);
        Ok(Self {
            protocol: peer.protocol,
            server,
            keys: set.keys(records)?.iter().map(hexadecimal).collect(),
            is_ours: peer.entry.origin == hedgerow_lab_report::OURS,
        })
    }

    /// Inserts every record.
    pub(super) fn load(&self) -> Result<()> {
        let address = self.server.address();
        if self.protocol == Protocol::MySql {
            let connect = mysql_client().map_err(|why| LabError::unavailable(&why))?;
            return load_rows(connect, address, &self.keys, VALUE_BYTES);
        }
        let insert = Mix::named("bwtree/insert-monotone").map_err(LabError::from_display)?;
        let scripts = slices(self.keys.len(), LOADING).map(|slice| {
            let steps = steps(&insert, slice, 0);
            script(self.protocol, &self.keys, &steps, VALUE_BYTES, LOAD_DEPTH)
        });
        play_each(address, &scripts.collect::<Result<Vec<_>>>()?)?;
        Ok(())
    }

    /// Plays the workload's operations on all records, dealt out to so many connections.
    pub(super) fn play(&self, mix: &Mix, connections: usize) -> Result<Played> {
        let parts: Vec<Vec<Step>> = slices(self.keys.len(), connections)
            .enumerate()
            .map(|(connection, slice)| steps(mix, slice, connection as u64))
            .collect();
        let operations = parts.iter().map(Vec::len).sum();
        let mut all = parts.iter().flatten();
        let address = match all.all(|step| step.kind == Kind::Read) {
            true => self.server.readers_address(),
            false => self.server.address(),
        };
        if self.protocol == Protocol::MySql {
            let connect = mysql_client().map_err(|why| LabError::unavailable(&why))?;
            let play = || play_rows(connect, address, &self.keys, &parts, VALUE_BYTES);
            return self.watch(operations, play);
        }
        let scripts = parts.iter();
        let scripts = scripts.map(|steps| script(self.protocol, &self.keys, steps, VALUE_BYTES, 1));
        let scripts = scripts.collect::<Result<Vec<_>>>()?;
        self.watch(operations, || play_each(address, &scripts))
    }

    /// Writes every record once more in transactions of so many; `None` where the server has no
    /// transactions in Redis's protocol.
    pub(super) fn play_transactions(
        &self,
        size: usize,
        connections: usize,
    ) -> Result<Option<Played>> {
        if self.protocol != Protocol::Resp {
            return Ok(None);
        }
        let scripts: Vec<Script> = slices(self.keys.len(), connections)
            .map(|slice| transactions(&self.keys, slice, VALUE_BYTES, size))
            .collect();
        let play = || play_each(self.server.address(), &scripts);
        self.watch(self.keys.len(), play).map(Some)
    }

    fn watch(&self, operations: usize, play: impl FnOnce() -> Result<f64>) -> Result<Played> {
        let before = self.server.cpu_seconds();
        let (rate, client_busy) = watched(play)?;
        Ok(Played {
            operations,
            seconds: operations as f64 / rate,
            server_seconds: self.server.cpu_seconds() - before,
            client_busy,
        })
    }

    /// How often an update of ours began again so far; `None` where the index does not count that.
    pub(super) fn retries(&self) -> Result<Option<f64>> {
        match self.is_ours {
            true => index_counter(self.server.address(), "retries"),
            false => Ok(None),
        }
    }
}

/// The records of each connection.
fn slices(records: usize, connections: usize) -> impl Iterator<Item = Range<usize>> {
    let bound = move |connection| records * connection / connections;
    (0..connections).map(move |connection| bound(connection)..bound(connection + 1))
}

fn hexadecimal(key: &[u8]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_share_the_records_out() {
        let slices: Vec<_> = slices(10, 4).collect();
        assert_eq!(slices, [0..2, 2..5, 5..7, 7..10]);
        let ascending = hexadecimal(&[0, 255, 16]);
        assert_eq!(ascending, "00ff10");
    }
}
