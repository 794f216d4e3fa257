//! `OBJECT` and `MEMORY`: a value's encoding, and its bytes.
//!
//! Rows have one representation each, which `OBJECT ENCODING` names as Redis would name its own for
//! such a value: what tools conclude from it (is it a number, is the hash a small one) holds.

use hedgerow::Row;
use hedgerow::backend::Backend;

use crate::resp::command::Call;
use crate::resp::commands::subcommands;
use crate::resp::failure::{Failure, Outcome};
use crate::resp::number;
use crate::settings::SmallHash;
use crate::shared::Shared;

/// The longest value that Redis keeps within its object.
const EMBEDDED_BYTES: usize = 44;

/// The name of the representation that Redis gives to such a row.
fn encoding<B: Backend>(shared: &Shared<B>, row: Row<'_>) -> &'static str {
    let Some(value) = row.value() else {
        let SmallHash { fields, bytes } = shared.settings.small_hash();
        let fits = |part: &[u8]| part.len() <= bytes;
        let is_small = row.column_count() <= fields
            && row.columns().all(|(name, value)| fits(name) && fits(value));
        return if is_small { "listpack" } else { "hashtable" };
    };
    if number::integer(value).is_some() {
        "int"
    } else if value.len() <= EMBEDDED_BYTES {
        "embstr"
    } else {
        "raw"
    }
}

/// `OBJECT ENCODING | FREQ | IDLETIME | REFCOUNT key`, `OBJECT HELP`
pub(crate) fn object<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let subcommand = call.arguments[0].to_ascii_uppercase();
    let Some(key) = call.arguments.get(1) else {
        subcommands::help(call, "OBJECT");
        return Ok(());
    };
    let Some(encoding) = call.data.read(key, |row| encoding(call.shared, row))? else {
        call.reply.null();
        return Ok(());
    };
    match subcommand.as_slice() {
        b"ENCODING" => call.reply.bulk(encoding.as_bytes()),
        b"FREQ" => {
            return Err(Failure::text(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. \
                 Please note that when switching between policies at runtime LRU and LFU data \
                 will take some time to adjust.",
            ));
        }
        // Values are not shared.
        b"REFCOUNT" => call.reply.integer(1),
        // `IDLETIME`: nothing is evicted by when it was last read, so rows do not keep that.
        _ => {
            return Err(Failure::text(
                "ERR idle time is not tracked: rows keep no access times",
            ));
        }
    }
    Ok(())
}

/// `MEMORY USAGE key [SAMPLES count]`, `MEMORY HELP`: the bytes of the key and of its row; what
/// the index adds is shared by many keys and is not counted.
pub(crate) fn memory<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let Some(key) = call.arguments.get(1) else {
        subcommands::help(call, "MEMORY");
        return Ok(());
    };
    let options = call.arguments.from(2);
    for (option, samples) in options.pairs() {
        // Rows are not sampled: their size is known.
        if !option.eq_ignore_ascii_case(b"SAMPLES") || number::argument(samples)? < 0 {
            return Err(Failure::Syntax);
        }
    }
    if !options.len().is_multiple_of(2) {
        return Err(Failure::Syntax);
    }
    match call.data.read(key, |row| row.size_bytes())? {
        Some(bytes) => call.reply.count(key.len() + bytes),
        None => call.reply.null(),
    }
    Ok(())
}
