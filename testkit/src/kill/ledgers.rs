//! The ledgers of all connections that write to one server.

use super::ledger::Ledger;

/// One ledger for each connection.
#[derive(Debug, Default)]
pub(super) struct Ledgers {
    /// Of Redis clients.
    pub(super) redis: Vec<Ledger>,
    /// Of memcached clients.
    pub(super) memcached: Vec<Ledger>,
    /// The ballast's, if there is any.
    pub(super) rows: Option<Ledger>,
}

impl Ledgers {
    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Ledger> {
        let clients = self.redis.iter().chain(&self.memcached);
        clients.chain(&self.rows)
    }

    /// All of them, to be changed.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Ledger> {
        let clients = self.redis.iter_mut().chain(&mut self.memcached);
        clients.chain(&mut self.rows)
    }
}
