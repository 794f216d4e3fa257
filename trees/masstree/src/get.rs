//! Looking up one key (Fig. 7): no latch, no shared write.
//!
//! Dependent misses: one per level of each layer passed (each a whole node, prefetched), plus
//! one for the value block of [`Bytes`].

use hedgerow_simd::{Kernel, Task};

use crate::configuration::{Configuration, Guard};
use crate::descend::Found;
use crate::key::Key;
use crate::tree::Masstree;
use crate::value::{Bytes, Value};

struct Get<'t, V: Value, C: Configuration> {
    tree: &'t Masstree<V, C>,
    key: &'t [u8],
}

impl<V: Value, C: Configuration> Task for Get<'_, V, C> {
    type Output = Option<u64>;

    #[inline(always)]
    fn run<K: Kernel>(self) -> Option<u64> {
        self.tree.find::<K>(self.key)
    }
}

impl<V: Value, C: Configuration> Masstree<V, C> {
    #[inline(always)]
    pub(crate) fn find<K: Kernel>(&self, bytes: &[u8]) -> Option<u64> {
        'restart: loop {
            let mut key = Key::new(bytes);
            let mut root = self.root();
            loop {
                let Some((node, version)) = self.find_border::<K>(root, key.slice()) else {
                    self.restarted();
                    continue 'restart;
                };
                match self.examine::<K>(node, version, &key) {
                    Found::Missing => return None,
                    Found::Value(value) => return Some(value),
                    Found::Layer(layer, ..) => {
                        crate::node::prefetch(layer);
                        root = layer;
                        key = key.descend();
                    }
                    Found::Restart => {
                        self.restarted();
                        continue 'restart;
                    }
                }
            }
        }
    }

    /// The value word of `key`; the caller holds a guard.
    #[inline(always)]
    pub(crate) fn get_word(&self, key: &[u8], _guard: &impl Guard) -> Option<u64> {
        self.level.run(Get { tree: self, key })
    }

    #[cold]
    pub(crate) fn restarted(&self) {
        self.counters
            .count(crate::statistics::Event::RootRetry as usize);
        std::hint::spin_loop();
    }

    /// Whether `key` is present.
    pub fn contains(&self, key: &[u8]) -> bool {
        let guard = C::read(&self.entry);
        self.get_word(key, &guard).is_some()
    }
}

impl<C: Configuration> Masstree<u64, C> {
    /// The value of `key`.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<u64> {
        let guard = C::read(&self.entry);
        self.get_word(key, &guard)
    }
}

impl<C: Configuration> Masstree<Bytes, C> {
    /// Runs `read` on the bytes of `key`'s value, or returns `None` when absent.
    #[inline]
    pub fn get_with<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let guard = C::read(&self.entry);
        let word = self.get_word(key, &guard)?;
        // SAFETY: a validated read of a live slot, and the guard outlives the call.
        Some(read(unsafe { Bytes::load(word) }))
    }
}
