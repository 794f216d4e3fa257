//! Blocks: what a log file is made of after its header.
//!
//! A block is a header, records of one buffer, and, when it closes an epoch, a trailer with the
//! valid length of every shard. The flusher writes a buffer at once, and a long one as several
//! blocks ([`LogOptions::block_bytes`](crate::LogOptions::block_bytes)), the last of which closes
//! the epoch: readers verify a block as a whole, so they have it in memory as a whole.
//! Integers are little-endian.
//!
//! ```text
//!  0 u32 magic "HdBl"     4 u32 crc32c of bytes 8.. of the block, seeded by the crc32c of the
//!                               database id
//!  8 u64 length of the whole block
//! 16 u64 sequence of the block in its file, from 0
//! 24 u64 durable offset: everything before it was synced before this block was written
//! 32 u64 last timestamp in the block (0: no records)
//! 40 u32 incarnation     44 u32 generation
//! 48 u16 shard           50 u16 shards of the incarnation
//! 52 u32 flags: 1 closes an epoch, 2 seals the file, 4 names a manifest
//! 56 u32 records         60 u32 trailer bytes
//! 64 records …
//!    trailer, if it closes an epoch: u64 closed epoch, then for every shard u64 valid length,
//!    u64 durable length; then, if it names a manifest, u64 its sequence
//! ```
//!
//! * Durable offset: every byte of this file before it was synced before this block was written.
//! * Trailer: what lies inside these valid lengths, of this epoch or an earlier one, is a
//!   consistent cut through all shards. The durable lengths are durable offsets for all files.
//! * Named manifest: it was durable before this block was written.
//! * Seal: this block is the last of its file. A rotation seals the files of all shards, in one
//!   group commit, before anything is written to the next generation.

use crate::planted::{PlantedBug, planted};
use crate::timestamp::Timestamp;

pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"HdBl");

// Where each field of a header begins: behind the one before.
const CRC_AT: usize = size_of::<u32>();
const LENGTH_AT: usize = CRC_AT + size_of::<u32>();
const SEQUENCE_AT: usize = LENGTH_AT + size_of::<u64>();
const DURABLE_OFFSET_AT: usize = SEQUENCE_AT + size_of::<u64>();
const LAST_TIMESTAMP_AT: usize = DURABLE_OFFSET_AT + size_of::<u64>();
const INCARNATION_AT: usize = LAST_TIMESTAMP_AT + size_of::<u64>();
const GENERATION_AT: usize = INCARNATION_AT + size_of::<u32>();
const SHARD_AT: usize = GENERATION_AT + size_of::<u32>();
const SHARDS_AT: usize = SHARD_AT + size_of::<u16>();
const FLAGS_AT: usize = SHARDS_AT + size_of::<u16>();
const RECORDS_AT: usize = FLAGS_AT + size_of::<u32>();
const TRAILER_BYTES_AT: usize = RECORDS_AT + size_of::<u32>();
/// Bytes of a block's header.
pub(crate) const HEADER_BYTES: usize = TRAILER_BYTES_AT + size_of::<u32>();

// The header as it is drawn above.
const _: () = {
    assert!(CRC_AT == 4 && LENGTH_AT == 8 && SEQUENCE_AT == 16);
    assert!(DURABLE_OFFSET_AT == 24 && LAST_TIMESTAMP_AT == 32);
    assert!(INCARNATION_AT == 40 && GENERATION_AT == 44 && SHARD_AT == 48 && SHARDS_AT == 50);
    assert!(FLAGS_AT == 52 && RECORDS_AT == 56 && TRAILER_BYTES_AT == 60 && HEADER_BYTES == 64);
};

const FLAG_CLOSES: u32 = 1;
const FLAG_SEALS: u32 = 2;
const FLAG_NAMES_MANIFEST: u32 = 4;

/// Which file a block belongs to: part of every block, so that a block that strayed from another
/// file, or from an earlier use of this one, is not taken for a good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub database_id: u128,
    pub incarnation: u32,
    pub generation: u32,
    pub shard: u16,
    pub shards: u16,
}

impl Identity {
    /// The same shard after a rotation.
    pub(crate) fn next_generation(self) -> Identity {
        Identity {
            generation: self.generation + 1,
            ..self
        }
    }

    pub(crate) fn checksum_seed(&self) -> u32 {
        crc32c::crc32c(&self.database_id.to_le_bytes())
    }
}

/// One shard's entry in a trailer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ShardLength {
    /// Bytes that hold everything of the closed epoch.
    pub valid: u64,
    /// Bytes known durable when the trailer was written.
    pub durable: u64,
}

/// "Epoch `epoch` is closed if each shard's file is valid up to these lengths."
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Closing {
    pub epoch: u64,
    pub lengths: Vec<ShardLength>,
    /// The sequence of a manifest that was durable before this was written.
    pub manifest: Option<u64>,
}

/// Bytes of the trailer of a block that closes an epoch, and perhaps names a manifest.
pub(crate) fn trailer_bytes(shards: u16, names_manifest: bool) -> usize {
    8 + 16 * usize::from(shards) + if names_manifest { 8 } else { 0 }
}

/// Everything in a block's header that varies from block to block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub length: u64,
    pub sequence: u64,
    pub durable_offset: u64,
    pub last_timestamp: Timestamp,
    pub records: u32,
    pub seals: bool,
    pub closing: Option<Closing>,
}

/// Turns a buffer from `start` on (room for a header, then records) into a block: appends the
/// trailer, fills in the header and the checksum. `header.length` is computed here.
pub(crate) fn seal(bytes: &mut Vec<u8>, start: usize, identity: &Identity, header: &BlockHeader) {
    debug_assert!(bytes.len() >= start + HEADER_BYTES);
    let before = bytes.len();
    if let Some(closing) = &header.closing {
        debug_assert_eq!(closing.lengths.len(), usize::from(identity.shards));
        bytes.extend_from_slice(&closing.epoch.to_le_bytes());
        for length in &closing.lengths {
            bytes.extend_from_slice(&length.valid.to_le_bytes());
            bytes.extend_from_slice(&length.durable.to_le_bytes());
        }
        if let Some(sequence) = closing.manifest {
            bytes.extend_from_slice(&sequence.to_le_bytes());
        }
    }
    let trailer = (bytes.len() - before) as u32;
    fill_in(&mut bytes[start..], trailer, identity, header);
}

/// As [`seal`], for a block that closes nothing and ends where `bytes` do.
pub(crate) fn seal_without_trailer(bytes: &mut [u8], identity: &Identity, header: &BlockHeader) {
    debug_assert!(bytes.len() >= HEADER_BYTES && header.closing.is_none());
    fill_in(bytes, 0, identity, header);
}

/// Fills in the header and the checksum of a block that is complete otherwise.
fn fill_in(bytes: &mut [u8], trailer: u32, identity: &Identity, header: &BlockHeader) {
    let names_manifest = header
        .closing
        .as_ref()
        .is_some_and(|c| c.manifest.is_some());
    let flag = |set: bool, flag: u32| if set { flag } else { 0 };
    let flags = flag(header.closing.is_some(), FLAG_CLOSES)
        | flag(header.seals, FLAG_SEALS)
        | flag(names_manifest, FLAG_NAMES_MANIFEST);
    let length = bytes.len() as u64;
    let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
    put(0, &MAGIC.to_le_bytes());
    put(LENGTH_AT, &length.to_le_bytes());
    put(SEQUENCE_AT, &header.sequence.to_le_bytes());
    put(DURABLE_OFFSET_AT, &header.durable_offset.to_le_bytes());
    put(
        LAST_TIMESTAMP_AT,
        &header.last_timestamp.raw().to_le_bytes(),
    );
    put(INCARNATION_AT, &identity.incarnation.to_le_bytes());
    put(GENERATION_AT, &identity.generation.to_le_bytes());
    put(SHARD_AT, &identity.shard.to_le_bytes());
    put(SHARDS_AT, &identity.shards.to_le_bytes());
    put(FLAGS_AT, &flags.to_le_bytes());
    put(RECORDS_AT, &header.records.to_le_bytes());
    put(TRAILER_BYTES_AT, &trailer.to_le_bytes());
    let crc = crc32c::crc32c_append(identity.checksum_seed(), &bytes[LENGTH_AT..]);
    bytes[CRC_AT..LENGTH_AT].copy_from_slice(&crc.to_le_bytes());
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The whole length that a block header claims, if it looks like a header at all. Nothing is
/// verified yet: this only says how much to read.
pub(crate) fn claimed_length(header: &[u8; HEADER_BYTES]) -> Option<u64> {
    let length = u64_at(header, LENGTH_AT);
    (u32_at(header, 0) == MAGIC && length >= HEADER_BYTES as u64).then_some(length)
}

/// Where the bytes begin that a block's checksum is of, from its beginning on.
pub(crate) const CHECKSUMMED_AT: usize = LENGTH_AT;

/// The checksum that a block header claims.
pub(crate) fn claimed_checksum(header: &[u8; HEADER_BYTES]) -> u32 {
    u32_at(header, CRC_AT)
}

/// Whether a block header names this file: a cheap look before a whole block is read.
pub(crate) fn names(header: &[u8; HEADER_BYTES], identity: &Identity) -> bool {
    let found = (
        u32_at(header, INCARNATION_AT),
        u32_at(header, GENERATION_AT),
        u16_at(header, SHARD_AT),
        u16_at(header, SHARDS_AT),
    );
    let Identity {
        incarnation,
        generation,
        shard,
        shards,
        ..
    } = *identity;
    found == (incarnation, generation, shard, shards)
}

/// What a trailer says, which has the right length.
fn closing_of(trailer: &[u8], shards: u16, names_manifest: bool) -> Closing {
    let length = |entry: &[u8]| ShardLength {
        valid: u64_at(entry, 0),
        durable: u64_at(entry, 8),
    };
    let lengths = trailer[8..trailer_bytes(shards, false)].chunks_exact(16);
    Closing {
        epoch: u64_at(trailer, 0),
        manifest: names_manifest.then(|| u64_at(trailer, trailer.len() - 8)),
        lengths: lengths.map(length).collect(),
    }
}

/// Verifies a whole block and takes it apart: its header and its records' bytes. The error says
/// in words what does not fit.
pub(crate) fn open<'a>(
    bytes: &'a [u8],
    identity: &Identity,
) -> Result<(BlockHeader, &'a [u8]), String> {
    if bytes.len() < HEADER_BYTES {
        return Err("the file ends inside a block header".into());
    }
    if u32_at(bytes, 0) != MAGIC {
        return Err("there is no block where one should begin".into());
    }
    let length = u64_at(bytes, LENGTH_AT);
    if length != bytes.len() as u64 {
        return Err("the block's length is not what its header says".into());
    }
    let crc = crc32c::crc32c_append(identity.checksum_seed(), &bytes[LENGTH_AT..]);
    if crc != u32_at(bytes, CRC_AT) && !planted(PlantedBug::ChecksumIgnored) {
        return Err("the block's checksum does not match its bytes".into());
    }
    let found = (
        u32_at(bytes, INCARNATION_AT),
        u32_at(bytes, GENERATION_AT),
        u16_at(bytes, SHARD_AT),
        u16_at(bytes, SHARDS_AT),
    );
    let Identity {
        incarnation,
        generation,
        shard,
        shards,
        ..
    } = *identity;
    if found != (incarnation, generation, shard, shards) {
        return Err("the block belongs to another log file".into());
    }
    let flags = u32_at(bytes, FLAGS_AT);
    let closes = flags & FLAG_CLOSES != 0;
    let trailer = u32_at(bytes, TRAILER_BYTES_AT) as usize;
    let names_manifest = flags & FLAG_NAMES_MANIFEST != 0;
    let wanted = match closes {
        true => trailer_bytes(shards, names_manifest),
        false => 0,
    };
    if trailer != wanted || HEADER_BYTES + trailer > bytes.len() {
        return Err("the block's trailer has the wrong size".into());
    }
    let (body, tail) = bytes[HEADER_BYTES..].split_at(bytes.len() - HEADER_BYTES - trailer);
    let closing = closes.then(|| closing_of(tail, shards, names_manifest));
    let most = Timestamp::MOST_STORED_EPOCH;
    if closing.as_ref().is_some_and(|closing| closing.epoch > most) {
        return Err("the block closes an epoch that is beyond all others".into());
    }
    let header = BlockHeader {
        length,
        sequence: u64_at(bytes, SEQUENCE_AT),
        durable_offset: u64_at(bytes, DURABLE_OFFSET_AT),
        last_timestamp: Timestamp::from_raw(u64_at(bytes, LAST_TIMESTAMP_AT)),
        records: u32_at(bytes, RECORDS_AT),
        seals: flags & FLAG_SEALS != 0,
        closing,
    };
    Ok((header, body))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const IDENTITY: Identity = Identity {
        database_id: 1 << 100,
        incarnation: 2,
        generation: 3,
        shard: 1,
        shards: 2,
    };

    fn block(records: &[u8], header: &BlockHeader) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.extend_from_slice(records);
        seal(&mut bytes, 0, &IDENTITY, header);
        bytes
    }

    fn header() -> impl Strategy<Value = BlockHeader> {
        let length = (any::<u64>(), any::<u64>())
            .prop_map(|(valid, durable)| ShardLength { valid, durable });
        let closing = (
            0..=Timestamp::MOST_STORED_EPOCH,
            prop::collection::vec(length, 2),
            any::<Option<u64>>(),
        )
            .prop_map(|(epoch, lengths, manifest)| Closing {
                epoch,
                lengths,
                manifest,
            });
        let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>());
        (numbers, any::<bool>(), prop::option::of(closing)).prop_map(
            |((sequence, durable_offset, time, records), seals, closing)| BlockHeader {
                length: 0,
                sequence,
                durable_offset,
                last_timestamp: Timestamp::from_raw(time),
                records,
                seals,
                closing,
            },
        )
    }

    proptest! {
        #[test]
        fn blocks_come_back(
            header in header(),
            records in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let bytes = block(&records, &header);
            prop_assert_eq!(claimed_length(bytes.first_chunk().unwrap()), Some(bytes.len() as u64));
            let (found, body) = open(&bytes, &IDENTITY).unwrap();
            prop_assert_eq!(found, BlockHeader { length: bytes.len() as u64, ..header });
            prop_assert_eq!(body, &records[..]);
        }

        #[test]
        fn one_flipped_bit_is_noticed(
            header in header(),
            records in prop::collection::vec(any::<u8>(), 0..100),
            at in any::<prop::sample::Index>(),
        ) {
            let mut bytes = block(&records, &header);
            let bit = at.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(open(&bytes, &IDENTITY).is_err());
        }

        #[test]
        fn any_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(open(&bytes, &IDENTITY).is_err());
        }
    }

    /// The header of the first block of a file.
    fn header_with(closing: Option<Closing>) -> BlockHeader {
        BlockHeader {
            length: 0,
            sequence: 0,
            durable_offset: 64,
            last_timestamp: Timestamp::ZERO,
            records: 0,
            seals: false,
            closing,
        }
    }

    #[test]
    fn an_epoch_beyond_all_others_is_refused() {
        let closing = |epoch| {
            let length = ShardLength {
                valid: 64,
                durable: 64,
            };
            header_with(Some(Closing {
                epoch,
                lengths: vec![length; 2],
                manifest: None,
            }))
        };
        let most = Timestamp::MOST_STORED_EPOCH;
        assert!(open(&block(b"", &closing(most)), &IDENTITY).is_ok());
        let beyond = block(b"", &closing(most + 1));
        let refused = open(&beyond, &IDENTITY);
        assert!(refused.unwrap_err().contains("beyond all others"));
    }

    #[test]
    fn a_block_of_another_file_is_refused() {
        let bytes = block(b"", &header_with(None));
        assert!(open(&bytes, &IDENTITY).is_ok());
        for other in [
            Identity {
                database_id: 0,
                ..IDENTITY
            },
            Identity {
                incarnation: 1,
                ..IDENTITY
            },
            Identity {
                generation: 4,
                ..IDENTITY
            },
            Identity {
                shard: 0,
                ..IDENTITY
            },
            Identity {
                shards: 3,
                ..IDENTITY
            },
        ] {
            assert!(open(&bytes, &other).is_err(), "{other:?}");
        }
    }
}
