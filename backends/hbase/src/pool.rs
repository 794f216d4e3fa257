//! The connections to all gateways, and which gateways are worth a call.
//!
//! A call takes a [`Slot`]: the right to one connection to one gateway. Healthy gateways take
//! turns. No gateway gets more connections than its limit. A caller that finds no free connection
//! waits for one until its deadline; so a busy HBase slows its writers down.
//!
//! A gateway that fails is *down*: its idle connections are closed, and no call goes to it until it
//! has answered a check (`health`), which it is sent after a pause that grows with each failure. A
//! connection that breaks when it is used again is no such failure: gateways close connections that
//! were idle for long, and all when they restart.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::backoff::backoff;
use crate::connection::{Connection, Fault};
use crate::options::Options;
use crate::statistics::{Counters, GatewayStatistics, Statistics};
use crate::url::GatewayAddress;

/// The connections to all gateways of a cluster.
pub(crate) struct Pool {
    pub(crate) options: Options,
    pub(crate) counters: Counters,
    addresses: Vec<GatewayAddress>,
    state: Mutex<State>,
    /// A slot has become free, or a gateway healthy.
    freed: Condvar,
    /// A gateway has gone down, or the pool is closed.
    troubled: Condvar,
}

struct State {
    /// In the order of the addresses.
    gateways: Vec<Gateway>,
    /// The gateway that the next call prefers.
    next: usize,
    /// Callers that wait for one gateway in particular.
    waiting_for_one: usize,
    is_closed: bool,
}

#[derive(Default)]
struct Gateway {
    /// Last used last.
    idle: Vec<Idle>,
    /// Slots: connections that are idle, used, or being opened.
    slots: usize,
    down: Option<Down>,
    failures_in_a_row: u32,
    failures: u64,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

struct Down {
    why: String,
    /// When it may be checked, unless it is being checked now.
    check_at: Option<Instant>,
}

/// Why there was no slot before the deadline.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoSlot {
    /// Every gateway that would do is down; the last failure of one.
    Down(String),
    /// All connections of the healthy gateways were in use.
    Busy,
}

impl Pool {
    pub(crate) fn new(addresses: Vec<GatewayAddress>, options: Options) -> Pool {
        let gateways = addresses.iter().map(|_| Gateway::default()).collect();
        Pool {
            options,
            counters: Counters::default(),
            addresses,
            state: Mutex::new(State {
                gateways,
                next: 0,
                waiting_for_one: 0,
                is_closed: false,
            }),
            freed: Condvar::new(),
            troubled: Condvar::new(),
        }
    }

    /// Nothing panics while the state is locked but for want of memory, so it is whole even then.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self) -> usize {
        self.addresses.len()
    }

    pub(crate) fn address(&self, gateway: usize) -> &GatewayAddress {
        &self.addresses[gateway]
    }

    /// All addresses, with commas between.
    pub(crate) fn all_addresses(&self) -> String {
        let addresses = self.addresses.iter().map(GatewayAddress::to_string);
        addresses.collect::<Vec<_>>().join(", ")
    }

    /// A slot of a healthy gateway: of `only`, if that is given, and not of `avoid`, if another one
    /// has a free slot. Waits for one until the deadline.
    pub(crate) fn acquire(
        &self,
        deadline: Instant,
        avoid: Option<usize>,
        only: Option<usize>,
    ) -> Result<Slot<'_>, NoSlot> {
        let mut state = self.lock();
        loop {
            if let Some(gateway) = state.choose(self.options.connections, avoid, only) {
                let idle = state.take(gateway);
                drop(state);
                return Ok(self.slot(gateway, idle));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(state.why_none(only));
            }
            state.waiting_for_one += usize::from(only.is_some());
            let waited = self.freed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting_for_one -= usize::from(only.is_some());
        }
    }

    /// The connection is looked at outside the lock: that takes system calls.
    fn slot(&self, gateway: usize, idle: Option<Idle>) -> Slot<'_> {
        let is_usable = |idle: &Idle| {
            idle.since.elapsed() < self.options.idle_timeout && idle.connection.is_quiet()
        };
        let connection = idle.filter(is_usable).map(|idle| idle.connection);
        Slot {
            pool: self,
            gateway,
            is_reused: connection.is_some(),
            connection,
        }
    }

    /// Gives a slot back, with its connection if that is still good.
    fn release(&self, gateway: usize, connection: Option<Connection>) {
        let mut state = self.lock();
        let is_kept = !state.is_closed
            && state.gateways[gateway].down.is_none()
            && state.gateways[gateway].idle.len() < self.options.idle_connections;
        let mut dropped = None;
        match connection {
            Some(connection) if is_kept => state.gateways[gateway].idle.push(Idle {
                connection,
                since: Instant::now(),
            }),
            connection => {
                dropped = connection;
                state.gateways[gateway].slots -= 1;
            }
        }
        // One slot serves one caller, if that one can use any gateway.
        match state.waiting_for_one {
            0 => self.freed.notify_one(),
            _ => self.freed.notify_all(),
        }
        drop(state);
        drop(dropped);
    }

    /// Opens a connection within the timeout of connections, and counts it.
    pub(crate) fn connect(&self, gateway: usize) -> Result<Connection, Fault> {
        self.connect_until(gateway, Instant::now() + self.options.connect_timeout)
    }

    fn connect_until(&self, gateway: usize, deadline: Instant) -> Result<Connection, Fault> {
        let limit = self.options.reply_limit_bytes;
        let connection = Connection::open(self.address(gateway), deadline, limit)?;
        self.counters.connections_opened.add(1);
        Ok(connection)
    }

    /// Takes a gateway out of use until a check succeeds.
    pub(crate) fn mark_down(&self, gateway: usize, why: String) {
        let Options {
            min_backoff,
            max_backoff,
            ..
        } = self.options;
        let mut state = self.lock();
        let entry = &mut state.gateways[gateway];
        entry.failures += 1;
        entry.failures_in_a_row = entry.failures_in_a_row.saturating_add(1);
        let pause = backoff(min_backoff, max_backoff, entry.failures_in_a_row);
        entry.down = Some(Down {
            why,
            check_at: Some(Instant::now() + pause),
        });
        let idle = entry.take_idle();
        self.troubled.notify_all();
        drop(state);
        drop(idle);
    }

    /// Puts a gateway back into use.
    pub(crate) fn mark_healthy(&self, gateway: usize) {
        let mut state = self.lock();
        state.gateways[gateway].down = None;
        state.gateways[gateway].failures_in_a_row = 0;
        self.freed.notify_all();
    }

    /// Closes the idle connections of a gateway: they are older than one that has broken.
    pub(crate) fn close_idle(&self, gateway: usize) {
        let mut state = self.lock();
        let idle = state.gateways[gateway].take_idle();
        self.freed.notify_all();
        drop(state);
        drop(idle);
    }

    /// What there is to do for whoever checks gateways: waits until something is due, closes idle
    /// connections whose time has passed, and returns gateways to check now, or nothing once the
    /// pool is closed. A gateway is returned once until it is marked again.
    pub(crate) fn await_checks(&self) -> Option<Vec<usize>> {
        let mut state = self.lock();
        while !state.is_closed {
            let now = Instant::now();
            let expired = state.take_expired(now, self.options.idle_timeout);
            let due = state.take_due(now);
            if !expired.is_empty() {
                self.freed.notify_all();
                drop(state);
                drop(expired);
                state = self.lock();
            }
            if !due.is_empty() {
                return Some(due);
            }
            // Nobody wakes this thread for connections that become idle.
            let longest = self.options.idle_timeout / 4;
            let longest = longest.clamp(Duration::from_millis(10), Duration::from_secs(10));
            let next_check = state.next_check().unwrap_or(now + longest);
            let pause = next_check.saturating_duration_since(now).min(longest);
            let waited = self.troubled.wait_timeout(state, pause);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    /// Closes all idle connections, and lets `await_checks` end.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        let idle: Vec<Vec<Idle>> = state.gateways.iter_mut().map(Gateway::take_idle).collect();
        self.troubled.notify_all();
        drop(state);
        drop(idle);
    }

    /// Everything that is counted, at this moment.
    pub(crate) fn statistics(&self) -> Statistics {
        let state = self.lock();
        let gateways = self.addresses.iter().zip(&state.gateways);
        let gateways = gateways.map(|(address, gateway)| GatewayStatistics {
            address: address.clone(),
            is_healthy: gateway.down.is_none(),
            why: gateway.down.as_ref().map(|down| down.why.clone()),
            failures: gateway.failures,
            open_connections: gateway.slots,
            idle_connections: gateway.idle.len(),
        });
        self.counters.statistics(gateways.collect())
    }
}

impl State {
    /// A gateway with a free slot, in turns.
    fn choose(&mut self, limit: usize, avoid: Option<usize>, only: Option<usize>) -> Option<usize> {
        let count = self.gateways.len();
        let turns = (0..count).map(|turn| (self.next + turn) % count);
        let usable = turns.filter(|&nth| {
            let gateway = &self.gateways[nth];
            let is_free = !gateway.idle.is_empty() || gateway.slots < limit;
            gateway.down.is_none() && is_free && only.is_none_or(|only| only == nth)
        });
        let usable: Vec<usize> = usable.collect();
        let preferred = usable.iter().find(|nth| Some(**nth) != avoid);
        let chosen = preferred.or(usable.first()).copied()?;
        if only.is_none() {
            self.next = (chosen + 1) % count;
        }
        Some(chosen)
    }

    /// Takes a slot of a gateway that has one: the idle connection last used, or none, which is
    /// to be opened.
    fn take(&mut self, gateway: usize) -> Option<Idle> {
        let gateway = &mut self.gateways[gateway];
        let idle = gateway.idle.pop();
        gateway.slots += usize::from(idle.is_none());
        idle
    }

    fn why_none(&self, only: Option<usize>) -> NoSlot {
        let gateways = self.gateways.iter().enumerate();
        let mut gateways = gateways.filter(|(nth, _)| only.is_none_or(|only| only == *nth));
        let mut why = String::new();
        let all_down = gateways.all(|(_, gateway)| match &gateway.down {
            Some(down) => {
                why.clone_from(&down.why);
                true
            }
            None => false,
        });
        match all_down {
            true => NoSlot::Down(why),
            false => NoSlot::Busy,
        }
    }

    fn take_expired(&mut self, now: Instant, timeout: Duration) -> Vec<Idle> {
        let mut expired = Vec::new();
        for gateway in &mut self.gateways {
            let is_expired = |idle: &Idle| now.saturating_duration_since(idle.since) >= timeout;
            // Last used last, so the expired ones stand at the front.
            let end = gateway.idle.partition_point(is_expired);
            expired.extend(gateway.idle.drain(..end));
            gateway.slots -= end;
        }
        expired
    }

    /// The gateways whose checks are due, which are then being checked.
    fn take_due(&mut self, now: Instant) -> Vec<usize> {
        let mut due = Vec::new();
        for (nth, gateway) in self.gateways.iter_mut().enumerate() {
            if let Some(down) = &mut gateway.down
                && down.check_at.is_some_and(|at| at <= now)
            {
                down.check_at = None;
                due.push(nth);
            }
        }
        due
    }

    fn next_check(&self) -> Option<Instant> {
        let down = self.gateways.iter().filter_map(|g| g.down.as_ref());
        down.filter_map(|down| down.check_at).min()
    }
}

impl Gateway {
    fn take_idle(&mut self) -> Vec<Idle> {
        self.slots -= self.idle.len();
        std::mem::take(&mut self.idle)
    }
}

/// The right to one connection to one gateway. Dropped, it gives the connection back to the pool,
/// or closes it if it is broken.
pub(crate) struct Slot<'a> {
    pool: &'a Pool,
    gateway: usize,
    connection: Option<Connection>,
    is_reused: bool,
}

impl Slot<'_> {
    /// The gateway's place in the URL.
    pub(crate) fn gateway(&self) -> usize {
        self.gateway
    }

    /// Whether the connection was opened for an earlier call.
    pub(crate) fn is_reused(&self) -> bool {
        self.is_reused
    }

    /// The connection. If the pool had none, it is opened until the deadline, and within the
    /// timeout of connections.
    pub(crate) fn connection(&mut self, deadline: Instant) -> Result<&mut Connection, Fault> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let latest = Instant::now() + self.pool.options.connect_timeout;
                self.pool
                    .connect_until(self.gateway, latest.min(deadline))?
            }
        };
        Ok(self.connection.insert(connection))
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let connection = self.connection.take();
        let good = connection.filter(|connection| !connection.is_broken());
        self.pool.release(self.gateway, good);
    }
}
