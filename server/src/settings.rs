//! Settings that `CONFIG SET` changes while the server runs, until it stops; the options have their
//! first values. Reading a setting is one relaxed load.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hedgerow::Durability;

use crate::options::ServerOptions;

const ORDER: Ordering = Ordering::Relaxed;

/// The settings of a running server.
pub(crate) struct Settings {
    durability: AtomicU8,
    max_connections: AtomicUsize,
    /// Zero for never.
    idle_timeout_ms: AtomicU64,
    max_bulk_bytes: AtomicUsize,
    /// A hash with no more fields, none longer, is a small one to `OBJECT ENCODING`.
    small_hash_fields: AtomicUsize,
    small_hash_bytes: AtomicUsize,
    has_password: AtomicBool,
    password: RwLock<Option<Arc<str>>>,
}

fn number(durability: Durability) -> u8 {
    match durability {
        Durability::Sync => 0,
        Durability::Periodic => 1,
        Durability::None => 2,
    }
}

/// How large a small hash is at most.
#[derive(Clone, Copy)]
pub(crate) struct SmallHash {
    pub(crate) fields: usize,
    /// Of each name and value.
    pub(crate) bytes: usize,
}

impl Settings {
    pub(crate) fn new(options: &ServerOptions) -> Settings {
        let timeout = options.idle_timeout.unwrap_or_default();
        Settings {
            durability: AtomicU8::new(number(options.durability)),
            max_connections: AtomicUsize::new(options.max_connections),
            idle_timeout_ms: AtomicU64::new(timeout.as_millis() as u64),
            max_bulk_bytes: AtomicUsize::new(options.max_bulk_bytes),
            small_hash_fields: AtomicUsize::new(512),
            small_hash_bytes: AtomicUsize::new(64),
            has_password: AtomicBool::new(options.password.is_some()),
            password: RwLock::new(options.password.as_deref().map(Arc::from)),
        }
    }

    /// What an acknowledged write promises.
    #[inline]
    pub(crate) fn durability(&self) -> Durability {
        match self.durability.load(ORDER) {
            0 => Durability::Sync,
            1 => Durability::Periodic,
            _ => Durability::None,
        }
    }

    pub(crate) fn set_durability(&self, durability: Durability) {
        self.durability.store(number(durability), ORDER);
    }

    pub(crate) fn max_connections(&self) -> usize {
        self.max_connections.load(ORDER)
    }

    pub(crate) fn set_max_connections(&self, connections: usize) {
        self.max_connections.store(connections, ORDER);
    }

    /// After how long a silent connection is closed; `None` for never.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        let timeout_ms = self.idle_timeout_ms.load(ORDER);
        (timeout_ms > 0).then(|| Duration::from_millis(timeout_ms))
    }

    pub(crate) fn set_idle_timeout(&self, timeout: Duration) {
        let timeout_ms = timeout.as_millis() as u64;
        self.idle_timeout_ms.store(timeout_ms, ORDER);
    }

    /// The longest argument of a request, and the longest value.
    #[inline]
    pub(crate) fn max_bulk_bytes(&self) -> usize {
        self.max_bulk_bytes.load(ORDER)
    }

    pub(crate) fn set_max_bulk_bytes(&self, bytes: usize) {
        self.max_bulk_bytes.store(bytes, ORDER);
    }

    /// What is a small hash to `OBJECT ENCODING`.
    pub(crate) fn small_hash(&self) -> SmallHash {
        SmallHash {
            fields: self.small_hash_fields.load(ORDER),
            bytes: self.small_hash_bytes.load(ORDER),
        }
    }

    pub(crate) fn set_small_hash_fields(&self, fields: usize) {
        self.small_hash_fields.store(fields, ORDER);
    }

    pub(crate) fn set_small_hash_bytes(&self, bytes: usize) {
        self.small_hash_bytes.store(bytes, ORDER);
    }

    /// Whether clients must authenticate.
    #[inline]
    pub(crate) fn has_password(&self) -> bool {
        self.has_password.load(ORDER)
    }

    /// What clients must say first.
    pub(crate) fn password(&self) -> Option<Arc<str>> {
        let password = self.password.read();
        password.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Connections that are authenticated stay so.
    pub(crate) fn set_password(&self, password: Option<&str>) {
        let mut present = self
            .password
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        self.has_password.store(password.is_some(), ORDER);
        *present = password.map(Arc::from);
    }
}
