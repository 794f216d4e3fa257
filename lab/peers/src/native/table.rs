//! A map whose code and loops are C++: `native/peer.h` says the same in its language.

use std::ffi::{CStr, c_char, c_void};

use hedgerow_lab_contender::{Map, Step, Steps, Tally};
use hedgerow_lab_data::KeyRange;

/// `PeerTally`.
#[repr(C)]
pub(super) struct RawTally {
    hits: u64,
    sum: u64,
}

impl From<RawTally> for Tally {
    fn from(raw: RawTally) -> Self {
        Self {
            hits: raw.hits,
            sum: raw.sum,
        }
    }
}

/// `PeerKeys`.
#[repr(C)]
pub(super) struct RawKeys {
    bytes: *const u8,
    first: u64,
    ends: *const u64,
    count: usize,
}

impl RawKeys {
    /// A range of keys, for the length of a call.
    fn new(keys: &KeyRange<'_>) -> Self {
        let raw = keys.raw();
        Self {
            bytes: raw.bytes.as_ptr(),
            first: raw.first,
            ends: raw.ends.as_ptr(),
            count: raw.ends.len(),
        }
    }
}

type Visit = extern "C" fn(context: *mut c_void, key: *const u8, bytes: usize, value: u64);

/// `PeerTable`.
#[repr(C)]
pub(super) struct Table {
    create: unsafe extern "C" fn() -> *mut c_void,
    destroy: unsafe extern "C" fn(map: *mut c_void),
    put: unsafe extern "C" fn(map: *mut c_void, key: *const u8, bytes: usize, value: u64),
    get: unsafe extern "C" fn(*mut c_void, *const u8, usize, value: *mut u64) -> bool,
    remove: unsafe extern "C" fn(map: *mut c_void, key: *const u8, bytes: usize) -> bool,
    scan: unsafe extern "C" fn(*mut c_void, *const u8, usize, usize, Visit, *mut c_void),
    put_run: unsafe extern "C" fn(map: *mut c_void, keys: *const RawKeys, add: u64),
    get_run: unsafe extern "C" fn(map: *mut c_void, keys: *const RawKeys) -> RawTally,
    dependent_run: unsafe extern "C" fn(map: *mut c_void, keys: *const RawKeys) -> RawTally,
    scan_run: unsafe extern "C" fn(*mut c_void, *const RawKeys, count: usize) -> RawTally,
    remove_run: unsafe extern "C" fn(map: *mut c_void, keys: *const RawKeys) -> u64,
    mixed_run: unsafe extern "C" fn(*mut c_void, *const RawKeys, steps: *const Step) -> RawTally,
}

/// How a shim gives its table.
pub(super) type GetTable = unsafe extern "C" fn() -> *const Table;

/// A map behind a table.
pub(super) struct Native {
    table: &'static Table,
    map: *mut c_void,
    /// The only length of keys it takes, where there is one.
    key_bytes: Option<usize>,
}

impl Native {
    /// An empty map.
    pub(super) fn new(table: GetTable, key_bytes: Option<usize>) -> Self {
        // SAFETY: each shim's function gives a table that is constant while the process lives.
        let table = unsafe { &*table() };
        // SAFETY: what a shim creates is freed by its `destroy`, in `drop`.
        let map = unsafe { (table.create)() };
        Self {
            table,
            map,
            key_bytes,
        }
    }

    /// The C++ side reads the bytes of integer keys unseen.
    fn check(&self, key: &[u8]) {
        if let Some(bytes) = self.key_bytes {
            assert_eq!(key.len(), bytes, "keys of {bytes} bytes");
        }
    }

    fn checked(&self, keys: &KeyRange<'_>) -> RawKeys {
        if let Some(bytes) = self.key_bytes {
            let raw = keys.raw();
            let ends = raw.ends;
            let total = ends.last().map_or(0, |end| end - raw.first) as usize;
            // The lab runs sets that the limits let through; this keeps a slip from reading on.
            assert_eq!(total, bytes * ends.len(), "keys of {bytes} bytes");
        }
        RawKeys::new(keys)
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: `create` made the map, and nobody uses it any more.
        unsafe { (self.table.destroy)(self.map) };
    }
}

/// Calls the visitor that `context` points to.
extern "C" fn show(context: *mut c_void, key: *const u8, bytes: usize, value: u64) {
    // SAFETY: `Native::scan` passes a pointer to its visitor, which outlives the call.
    let visit = unsafe { &mut *context.cast::<&mut dyn FnMut(&[u8], u64)>() };
    let key = match bytes {
        // Its address may be anything.
        0 => &[],
        // SAFETY: the shim shows `bytes` bytes that stay put during the call.
        _ => unsafe { std::slice::from_raw_parts(key, bytes) },
    };
    visit(key, value);
}

impl Map for Native {
    fn put(&self, key: &[u8], value: u64) {
        self.check(key);
        // SAFETY: the map lives, and the key's bytes are read during the call only.
        unsafe { (self.table.put)(self.map, key.as_ptr(), key.len(), value) };
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.check(key);
        let mut value = 0;
        // SAFETY: as in `put`; `value` is written during the call only.
        let found = unsafe { (self.table.get)(self.map, key.as_ptr(), key.len(), &mut value) };
        found.then_some(value)
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.check(key);
        // SAFETY: as in `put`.
        unsafe { (self.table.remove)(self.map, key.as_ptr(), key.len()) }
    }

    fn scan(&self, from: &[u8], count: usize, mut visit: &mut dyn FnMut(&[u8], u64)) {
        self.check(from);
        let context = (&raw mut visit).cast();
        // SAFETY: as in `put`; `show` gets the pointer that it expects, which lives long enough.
        unsafe { (self.table.scan)(self.map, from.as_ptr(), from.len(), count, show, context) };
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        let raw = self.checked(&keys);
        // SAFETY: the map lives, and the keys are read during the call only, within the range.
        unsafe { (self.table.scan_run)(self.map, &raw, count) }.into()
    }

    fn put_run(&self, keys: KeyRange<'_>, add: u64) {
        let raw = self.checked(&keys);
        // SAFETY: as in `scan_run`.
        unsafe { (self.table.put_run)(self.map, &raw, add) };
    }

    fn get_run(&self, keys: KeyRange<'_>) -> Tally {
        let raw = self.checked(&keys);
        // SAFETY: as in `scan_run`.
        unsafe { (self.table.get_run)(self.map, &raw) }.into()
    }

    fn dependent_run(&self, keys: KeyRange<'_>) -> Tally {
        let raw = self.checked(&keys);
        // SAFETY: as in `scan_run`.
        unsafe { (self.table.dependent_run)(self.map, &raw) }.into()
    }

    fn remove_run(&self, keys: KeyRange<'_>) -> u64 {
        let raw = self.checked(&keys);
        // SAFETY: as in `scan_run`.
        unsafe { (self.table.remove_run)(self.map, &raw) }
    }

    fn mixed_run(&self, steps: &Steps<'_>) -> Tally {
        let raw = self.checked(steps.keys());
        // SAFETY: as in `scan_run`; a step is the number that the shim reads, one for each key.
        unsafe { (self.table.mixed_run)(self.map, &raw, steps.steps().as_ptr()) }.into()
    }
}

/// A version that a shim gives.
pub(crate) fn text(version: unsafe extern "C" fn() -> *const c_char) -> String {
    // SAFETY: each shim's function gives a constant string that ends in a zero byte.
    let text = unsafe { CStr::from_ptr(version()) };
    text.to_string_lossy().into_owned()
}

/// A map that many threads may use at once.
#[cfg(peer = "cds")]
pub(super) struct Shared(pub(super) Native);

#[cfg(peer = "cds")]
// SAFETY: only `concurrent!` makes one, of maps that are made for concurrent use; their shims
// announce each thread to the library.
unsafe impl Send for Shared {}
#[cfg(peer = "cds")]
// SAFETY: as for `Send`: the library's maps take operations from many threads at once.
unsafe impl Sync for Shared {}

#[cfg(peer = "cds")]
impl Map for Shared {
    fn put(&self, key: &[u8], value: u64) {
        self.0.put(key, value);
    }

    fn get(&self, key: &[u8]) -> Option<u64> {
        self.0.get(key)
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.0.remove(key)
    }

    fn scan(&self, from: &[u8], count: usize, visit: &mut dyn FnMut(&[u8], u64)) {
        self.0.scan(from, count, visit);
    }

    fn scan_run(&self, keys: KeyRange<'_>, count: usize) -> Tally {
        self.0.scan_run(keys, count)
    }

    fn put_run(&self, keys: KeyRange<'_>, add: u64) {
        self.0.put_run(keys, add);
    }

    fn get_run(&self, keys: KeyRange<'_>) -> Tally {
        self.0.get_run(keys)
    }

    fn dependent_run(&self, keys: KeyRange<'_>) -> Tally {
        self.0.dependent_run(keys)
    }

    fn remove_run(&self, keys: KeyRange<'_>) -> u64 {
        self.0.remove_run(keys)
    }

    fn mixed_run(&self, steps: &Steps<'_>) -> Tally {
        self.0.mixed_run(steps)
    }
}
