//! Memory whose blocks are named by numbers of 32 bits, for trees without a mapping table.
//!
//! One reserved range of addresses, for all such trees of the process, which the kernel backs as it
//! is used, by superpages as it backs the usual pools. The number of a block is its distance from
//! the range's start, so a number is an address, and no memory is read to go from one to the other.
//!
//! A block that is given back is used again for one of the same size. Memory does not return to the
//! kernel, and sanitizers do not see which blocks are free; so in builds with debug assertions a
//! free block is filled with a pattern that is no record.

use std::collections::BTreeMap;
use std::io;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use hedgerow_memory::Mapping;

use crate::mapping_table::ROOT;
use crate::node::record::LINE_BYTES;

/// Bytes in which blocks are counted.
pub(crate) const UNIT_BYTES: usize = LINE_BYTES;

/// Bytes of all blocks together. Miri has no memory that is backed when it is touched.
const REGION_BYTES: usize = if cfg!(miri) { 1 << 24 } else { 1 << 36 };

/// What free blocks are filled with in builds with debug assertions.
const FREE: u8 = 0xf5;

/// The range, and which of its blocks are free.
struct Region {
    memory: Mapping,
    free: Mutex<FreeBlocks>,
}

struct FreeBlocks {
    /// The first unit that was never used.
    unused: usize,
    /// Blocks that were given back: where they begin, by how many units they have.
    by_units: BTreeMap<usize, Vec<usize>>,
}

static REGION: OnceLock<Region> = OnceLock::new();

/// The region, reserved by the first call.
///
/// # Errors
///
/// What the kernel says when it does not give so much address space.
fn reserve() -> io::Result<&'static Region> {
    if let Some(region) = REGION.get() {
        return Ok(region);
    }
    let memory = Mapping::reserve(REGION_BYTES)?;
    memory.ask_for_superpages(0..REGION_BYTES, true);
    memory.start().as_ptr().expose_provenance();
    // Ids up to the root's name no block.
    let free = Mutex::new(FreeBlocks {
        unused: ROOT as usize + 1,
        by_units: BTreeMap::new(),
    });
    Ok(REGION.get_or_init(|| Region { memory, free }))
}

/// The address from which blocks are counted.
///
/// # Errors
///
/// What the kernel says when it does not give so much address space.
pub(crate) fn start() -> io::Result<usize> {
    Ok(reserve()?.memory.start().addr().get())
}

fn lock(region: &Region) -> MutexGuard<'_, FreeBlocks> {
    // No code of others runs under the mutex.
    region.free.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A block of at least `bytes`, aligned to [`UNIT_BYTES`]. Costs a mutex.
///
/// # Panics
///
/// If trees without a mapping table have used all of the region.
pub(crate) fn allocate(bytes: usize) -> NonNull<u8> {
    let region = reserve().expect("a tree exists, so the region is reserved");
    let units = bytes.div_ceil(UNIT_BYTES);
    let mut free = lock(region);
    let given_back = free.by_units.get_mut(&units).and_then(Vec::pop);
    let unit = given_back.unwrap_or_else(|| {
        let unit = free.unused;
        free.unused += units;
        assert!(
            free.unused * UNIT_BYTES <= REGION_BYTES,
            "Bw-trees without a mapping table have at most {REGION_BYTES} bytes together"
        );
        unit
    });
    // SAFETY: the block ends within the region, as was just checked when it was first used.
    unsafe { region.memory.start().add(unit * UNIT_BYTES) }
}

/// Gives a block back; any thread may do so. Costs a mutex.
///
/// # Safety
///
/// `block` came from [`allocate`] with the same `bytes`, was not given back since, and nobody uses
/// it any more.
pub(crate) unsafe fn release(block: NonNull<u8>, bytes: usize) {
    let region = reserve().expect("the block is in the region");
    let units = bytes.div_ceil(UNIT_BYTES);
    if cfg!(debug_assertions) {
        // SAFETY: the caller owns the block, which has so many bytes.
        unsafe { block.write_bytes(FREE, units * UNIT_BYTES) };
    }
    let unit = (block.addr().get() - region.memory.start().addr().get()) / UNIT_BYTES;
    lock(region).by_units.entry(units).or_default().push(unit);
}

/// Bytes that blocks have ever used.
pub(crate) fn ever_used_bytes() -> usize {
    let used = |region| lock(region).unused * UNIT_BYTES;
    REGION.get().map_or(0, used)
}
