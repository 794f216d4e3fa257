//! The ordered commands, which Redis has not: `RANGE`, `PREFIX`, `COUNTRANGE`, `DELRANGE`.
//! docs/protocol.md has their exact replies.

use std::ops::{Bound, ControlFlow};

use hedgerow::backend::Backend;
use hedgerow::{Direction, Row, prefix_end};

use crate::resp::arguments::Arguments;
use crate::resp::command::Call;
use crate::resp::commands::hashes::reply_values;
use crate::resp::failure::{Failure, Outcome};
use crate::resp::number;
use crate::resp::reply::{LONGEST_REPLY_BYTES, Reply};

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

pub(crate) fn too_long() -> Failure {
    Failure::text("ERR the reply exceeds the server's limit; use LIMIT, or SCAN")
}

/// A bound: `-` and `+` are open, `[key` includes, `(key` excludes, a bare `key` includes.
fn bound(argument: &[u8], open: &[u8]) -> Bound<Vec<u8>> {
    match argument {
        argument if argument == open => Bound::Unbounded,
        [b'[', key @ ..] => Bound::Included(key.to_vec()),
        [b'(', key @ ..] => Bound::Excluded(key.to_vec()),
        key => Bound::Included(key.to_vec()),
    }
}

/// The bounds of `start end`; `None` if nothing can lie between them.
fn bounds(arguments: Arguments<'_>) -> Option<Bounds> {
    if &arguments[0] == b"+" || &arguments[1] == b"-" {
        return None;
    }
    let (start, end) = (bound(&arguments[0], b"-"), bound(&arguments[1], b"+"));
    let inverted = match (&start, &end) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (
            Bound::Included(start) | Bound::Excluded(start),
            Bound::Included(end) | Bound::Excluded(end),
        ) => start >= end,
    };
    (!inverted).then_some((start, end))
}

/// The options of `RANGE` and `PREFIX`.
struct RangeOptions<'c> {
    limit: usize,
    columns: Option<Vec<&'c [u8]>>,
    keys_only: bool,
    direction: Direction,
}

impl<'c> RangeOptions<'c> {
    /// `COLUMNS` takes all that follows, up to the next option.
    fn parse(arguments: Arguments<'c>) -> Outcome<RangeOptions<'c>> {
        let mut options = RangeOptions {
            limit: usize::MAX,
            columns: None,
            keys_only: false,
            direction: Direction::Forward,
        };
        let mut i = 0;
        while let Some(option) = arguments.get(i) {
            i += 1;
            if option.eq_ignore_ascii_case(b"LIMIT") {
                let limit = number::argument(arguments.get(i).ok_or(Failure::Syntax)?)?;
                options.limit = usize::try_from(limit).map_err(|_| Failure::NotInteger)?;
                i += 1;
            } else if option.eq_ignore_ascii_case(b"KEYS") {
                options.keys_only = true;
            } else if option.eq_ignore_ascii_case(b"REV") {
                options.direction = Direction::Reverse;
            } else if option.eq_ignore_ascii_case(b"COLUMNS") {
                let is_option = |argument: &&[u8]| {
                    [&b"LIMIT"[..], b"KEYS", b"REV"]
                        .iter()
                        .any(|option| argument.eq_ignore_ascii_case(option))
                };
                let fields: Vec<&[u8]> = arguments
                    .from(i)
                    .iter()
                    .take_while(|argument| !is_option(argument))
                    .collect();
                i += fields.len();
                options.columns = Some(fields).filter(|fields| !fields.is_empty());
                if options.columns.is_none() {
                    return Err(Failure::Syntax);
                }
            } else {
                return Err(Failure::Syntax);
            }
        }
        Ok(options)
    }

    /// How many entries of the reply's array a row becomes.
    fn entries_per_row(&self) -> usize {
        if self.keys_only { 1 } else { 2 }
    }

    fn reply(&self, reply: &mut Reply<'_>, key: &[u8], row: Row<'_>) {
        reply.bulk(key);
        match (&self.columns, row.value()) {
            (Some(names), _) => reply_values(reply, row, names),
            (None, Some(value)) => reply.bulk(value),
            (None, None) => {
                reply.map(row.column_count());
                for (field, value) in row.columns() {
                    reply.bulk(field);
                    reply.bulk(value);
                }
            }
        }
    }
}

fn reply_range<B: Backend>(
    call: &mut Call<'_, '_, '_, B>,
    bounds: Option<Bounds>,
    options: &RangeOptions<'_>,
) -> Outcome {
    let Call { data, reply, .. } = call;
    let Some(bounds) = bounds.filter(|_| options.limit > 0) else {
        reply.array(0);
        return Ok(());
    };
    // Most scans that are limited end at their limit.
    let expected = options.limit.saturating_mul(options.entries_per_row());
    let opened = reply.open_array(expected);
    let (mut rows, mut too_long_now) = (0, false);
    let mut go_on = |reply: &Reply<'_>| {
        rows += 1;
        // One row may be as long as values may.
        too_long_now = rows > 1 && reply.since(&opened) > LONGEST_REPLY_BYTES;
        if too_long_now || reply.is_full() || rows == options.limit {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    if options.keys_only {
        data.scan_keys(bounds, options.direction, |key| {
            reply.bulk(key);
            go_on(reply)
        })?;
    } else {
        data.scan(bounds, options.direction, options.limit, |key, row| {
            options.reply(reply, key, row);
            go_on(reply)
        })?;
    }
    if too_long_now && rows < options.limit {
        return Err(too_long());
    }
    reply.close_array(opened, rows * options.entries_per_row());
    Ok(())
}

/// `RANGE start end [LIMIT n] [COLUMNS field …] [KEYS] [REV]`
pub(crate) fn range<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let options = RangeOptions::parse(call.arguments.from(2))?;
    let bounds = bounds(call.arguments);
    reply_range(call, bounds, &options)
}

/// `PREFIX prefix [LIMIT n] [COLUMNS field …] [KEYS] [REV]`
pub(crate) fn prefix<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let options = RangeOptions::parse(call.arguments.from(1))?;
    let prefix = call.arguments[0].to_vec();
    let end = prefix_end(&prefix);
    reply_range(call, Some((Bound::Included(prefix), end)), &options)
}

/// `COUNTRANGE start end`
pub(crate) fn countrange<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let mut count = 0;
    if let Some(bounds) = bounds(call.arguments) {
        call.data.scan_keys(bounds, Direction::Forward, |_| {
            count += 1;
            ControlFlow::Continue(())
        })?;
    }
    call.reply.integer(count);
    Ok(())
}

/// `DELRANGE start end`: removes what the range holds, all at once.
pub(crate) fn delrange<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let removed = match bounds(call.arguments) {
        Some(bounds) => call.data.remove_range(bounds)?,
        None => 0,
    };
    call.reply.integer(removed as i64);
    Ok(())
}
