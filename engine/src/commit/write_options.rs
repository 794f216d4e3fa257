//! What a single write, batch or transaction may ask for.

/// What an acknowledged write promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Durability {
    /// The write survives a power cut: it returns after the group sync that covers it.
    Sync,
    /// The write survives a power cut once the flush interval (200 ms at most) has passed. It
    /// survives the end of the process only as far as the log was written by then.
    #[default]
    Periodic,
    /// No promise about when. It is logged and flushed with its neighbours all the same, so
    /// that recovery always yields a state that existed.
    None,
}

/// How one write behaves. The default: the database's durability, waiting for it, no expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// What the write promises; `None` for the database's default.
    pub durability: Option<Durability>,
    /// Whether a [`Durability::Sync`] write blocks until it is durable. A server sets this to
    /// false, calls [`Db::request_durable`](crate::Db::request_durable) once for many writes, and
    /// keeps each reply back until [`Db::durable_epoch`](crate::Db::durable_epoch) reaches the
    /// commit's epoch.
    pub wait: bool,
    /// When the row expires, in milliseconds since the Unix epoch.
    pub expiry_ms: Option<u64>,
    /// 32 bits stored with the row.
    pub user_flags: u32,
}

impl Default for WriteOptions {
    fn default() -> WriteOptions {
        WriteOptions {
            durability: None,
            wait: true,
            expiry_ms: None,
            user_flags: 0,
        }
    }
}

impl From<Durability> for WriteOptions {
    fn from(durability: Durability) -> WriteOptions {
        WriteOptions::default().durability(durability)
    }
}

impl From<&WriteOptions> for WriteOptions {
    fn from(options: &WriteOptions) -> WriteOptions {
        *options
    }
}

impl WriteOptions {
    /// These options with another durability.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// These options with an expiry, in milliseconds since the Unix epoch.
    pub fn expiry_ms(mut self, expiry_ms: u64) -> Self {
        self.expiry_ms = Some(expiry_ms);
        self
    }

    /// These options with 32 bits to store with the row.
    pub fn user_flags(mut self, user_flags: u32) -> Self {
        self.user_flags = user_flags;
        self
    }

    /// These options without waiting for durability; see [`WriteOptions::wait`].
    pub fn no_wait(mut self) -> Self {
        self.wait = false;
        self
    }
}
