//! The list of RESP connections that `CLIENT LIST` shows and `CLIENT KILL` ends. Only a
//! connection's worker may read its session. So each connection has an entry, its *card*, in the
//! list, which the worker updates after every tick in which the connection took part, and in which
//! other threads can request that the connection end.

use crate::sockets::address::SocketAddress;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

/// All connections' cards, by id.
#[derive(Default)]
pub(crate) struct Clients {
    cards: Mutex<BTreeMap<u64, Weak<Client>>>,
    /// How many connections were ever marked to end: workers compare it with what they saw last.
    kills: AtomicU64,
}

/// One connection's card.
pub(crate) struct Client {
    pub(crate) id: u64,
    /// The peer's address, and ours.
    pub(crate) addresses: ClientAddresses,
    since: Instant,
    names: Mutex<Names>,
    state: State,
    killed: AtomicBool,
    listed: Weak<Clients>,
}

/// What a client says about itself.
#[derive(Clone, Default)]
pub(crate) struct Names {
    pub(crate) name: Vec<u8>,
    pub(crate) library: Vec<u8>,
    pub(crate) library_version: Vec<u8>,
}

impl Names {
    /// The memory that is taken up.
    pub(crate) fn memory(&self) -> usize {
        self.name.capacity() + self.library.capacity() + self.library_version.capacity()
    }
}

/// What the connection was like at the end of its last tick.
struct State {
    /// Seconds after `since`.
    active_s: AtomicU64,
    database: AtomicUsize,
    resp3: AtomicBool,
    /// Commands queued after `MULTI`; -1 outside.
    queued: AtomicI64,
    queued_bytes: AtomicUsize,
    watched: AtomicUsize,
    command: AtomicU32,
    /// Bytes received and not used yet.
    input_bytes: AtomicUsize,
    /// Bytes of replies that were not sent yet.
    output_bytes: AtomicUsize,
}

/// The two ends of a connection, as far as the system tells them.
pub(crate) struct ClientAddresses {
    pub(crate) peer: Option<SocketAddress>,
    pub(crate) own: Option<SocketAddress>,
}

/// See [`Client::publish`].
pub(crate) struct Published {
    pub(crate) database: usize,
    pub(crate) resp3: bool,
    pub(crate) queued: Option<usize>,
    /// Bytes of their arguments, and of the transaction between `BEGIN` and `COMMIT`.
    pub(crate) queued_bytes: usize,
    pub(crate) watched: usize,
    /// The number of the last command.
    pub(crate) command: u32,
}

impl Clients {
    fn cards(&self) -> MutexGuard<'_, BTreeMap<u64, Weak<Client>>> {
        // Each change leaves the list whole.
        self.cards.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the card of a new connection; it is listed until dropped.
    pub(crate) fn enter(self: &Arc<Self>, id: u64, addresses: ClientAddresses) -> Arc<Client> {
        let client = Arc::new(Client {
            id,
            addresses,
            since: Instant::now(),
            names: Mutex::default(),
            state: State {
                active_s: AtomicU64::new(0),
                database: AtomicUsize::new(0),
                resp3: AtomicBool::new(false),
                queued: AtomicI64::new(-1),
                queued_bytes: AtomicUsize::new(0),
                watched: AtomicUsize::new(0),
                command: AtomicU32::new(u32::MAX),
                input_bytes: AtomicUsize::new(0),
                output_bytes: AtomicUsize::new(0),
            },
            killed: AtomicBool::new(false),
            listed: Arc::downgrade(self),
        });
        self.cards().insert(id, Arc::downgrade(&client));
        client
    }

    /// All connections, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.cards().values().filter_map(Weak::upgrade).collect()
    }

    /// Marks a connection to end. Its worker must be woken then.
    pub(crate) fn kill(&self, client: &Client) {
        client.killed.store(true, Ordering::Relaxed);
        self.kills.fetch_add(1, Ordering::Release);
    }

    /// How many connections were ever marked to end.
    pub(crate) fn kills(&self) -> u64 {
        self.kills.load(Ordering::Acquire)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(clients) = self.listed.upgrade() {
            clients.cards().remove(&self.id);
        }
    }
}

impl Client {
    /// Whether somebody marked the connection to end.
    pub(crate) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    pub(crate) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what the connection is like now.
    pub(crate) fn publish(&self, now: Instant, published: &Published) {
        let State {
            active_s,
            database,
            resp3,
            queued,
            queued_bytes,
            watched,
            command,
            ..
        } = &self.state;
        let order = Ordering::Relaxed;
        active_s.store(now.saturating_duration_since(self.since).as_secs(), order);
        database.store(published.database, order);
        resp3.store(published.resp3, order);
        queued.store(published.queued.map_or(-1, |n| n as i64), order);
        queued_bytes.store(published.queued_bytes, order);
        watched.store(published.watched, order);
        command.store(published.command, order);
    }

    /// Shows how much the connection's buffers hold now.
    pub(crate) fn publish_buffers(&self, input_bytes: usize, output_bytes: usize) {
        let order = Ordering::Relaxed;
        self.state.input_bytes.store(input_bytes, order);
        self.state.output_bytes.store(output_bytes, order);
    }

    /// Seconds since the connection was made.
    pub(crate) fn age_s(&self) -> u64 {
        self.since.elapsed().as_secs()
    }

    /// Appends a line of `name=value` pairs under Redis' names; `command_name` names a number.
    pub(crate) fn describe(&self, command_name: impl FnOnce(u32) -> String, text: &mut String) {
        let shown = |address: &Option<SocketAddress>| {
            let address = address.as_ref();
            address.map_or_else(|| "?".to_owned(), |address| address.to_string())
        };
        let state = &self.state;
        let order = Ordering::Relaxed;
        let (age_s, queued) = (self.age_s(), state.queued.load(order));
        let own = self.addresses.own.as_ref();
        let flags = match (queued >= 0, own.is_some_and(SocketAddress::is_unix)) {
            (false, false) => "N",
            (false, true) => "U",
            (true, false) => "x",
            (true, true) => "xU",
        };
        let idle_s = age_s.saturating_sub(state.active_s.load(order));
        let names = self.names().clone();
        let input_bytes = state.input_bytes.load(order);
        let output_bytes = state.output_bytes.load(order);
        let queued_bytes = state.queued_bytes.load(order);
        let total_bytes = input_bytes + output_bytes + queued_bytes;
        let _ = writeln!(
            text,
            "id={} addr={} laddr={} fd=-1 name={} age={age_s} idle={idle_s} flags={} db={} sub=0 \
             psub=0 ssub=0 multi={queued} watch={} qbuf={input_bytes} qbuf-free=0 argv-mem=0 \
             multi-mem={queued_bytes} rbs=0 rbp=0 obl={output_bytes} oll=0 omem={output_bytes} \
             tot-mem={total_bytes} events=r cmd={} user=default redir=-1 resp={} lib-name={} \
             lib-ver={}",
            self.id,
            shown(&self.addresses.peer),
            shown(&self.addresses.own),
            String::from_utf8_lossy(&names.name),
            flags,
            state.database.load(order),
            state.watched.load(order),
            command_name(state.command.load(order)),
            if state.resp3.load(order) { 3 } else { 2 },
            String::from_utf8_lossy(&names.library),
            String::from_utf8_lossy(&names.library_version),
        );
    }
}
