//! `SCAN`, `HSCAN` and `KEYS`. A pattern's literal beginning becomes an ordered prefix scan, so
//! `user:17:*` costs what it finds, not what the keyspace has.

use std::ops::{Bound, ControlFlow};

use hedgerow::backend::Backend;
use hedgerow::{Direction, Row, prefix_end};

use crate::resp::command::Call;
use crate::resp::commands::keys::type_name;
use crate::resp::failure::{Failure, Outcome};
use crate::resp::glob;
use crate::resp::number;
use crate::resp::reply::LONGEST_REPLY_BYTES;

/// The most rows that one `SCAN` looks at, whatever its `COUNT`: other clients wait meanwhile.
const MOST_ROWS: usize = 20_000;
const DEFAULT_COUNT: usize = 10;
/// A hash of no more fields and bytes is returned whole, whatever `COUNT` says.
const SMALL_FIELDS: usize = 128;
const SMALL_BYTES: usize = 64 << 10;

/// The options of `SCAN` and `HSCAN`.
struct ScanOptions<'c> {
    pattern: Option<&'c [u8]>,
    count: usize,
    kind: Option<&'c [u8]>,
}

impl<'c> ScanOptions<'c> {
    fn parse<B: Backend>(
        call: &Call<'c, '_, '_, B>,
        from: usize,
        knows_type: bool,
    ) -> Outcome<ScanOptions<'c>> {
        let mut options = ScanOptions {
            pattern: None,
            count: DEFAULT_COUNT,
            kind: None,
        };
        let arguments = call.arguments;
        let mut i = from;
        while let Some(option) = arguments.get(i) {
            let value = arguments.get(i + 1).ok_or(Failure::Syntax)?;
            if option.eq_ignore_ascii_case(b"MATCH") {
                options.pattern = Some(value);
            } else if option.eq_ignore_ascii_case(b"COUNT") {
                let count = number::argument(value)?;
                let count = usize::try_from(count).ok().filter(|count| *count > 0);
                options.count = count.ok_or(Failure::Syntax)?;
            } else if option.eq_ignore_ascii_case(b"TYPE") && knows_type {
                options.kind = Some(value);
            } else {
                return Err(Failure::Syntax);
            }
            i += 2;
        }
        Ok(options)
    }

    fn wants(&self, row: Row<'_>) -> bool {
        let name = type_name(Some(row.is_columns()));
        self.kind
            .is_none_or(|kind| kind.eq_ignore_ascii_case(name.as_bytes()))
    }
}

/// The cursor that an argument is. As in Redis, an empty one is 0.
fn cursor(argument: &[u8]) -> Outcome<u64> {
    if argument.is_empty() {
        return Ok(0);
    }
    let text = std::str::from_utf8(argument).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or(Failure::text("ERR invalid cursor"))
}

/// Where the keys are that can match a pattern.
struct Candidates<'p> {
    start: Bound<Vec<u8>>,
    end: Bound<Vec<u8>>,
    /// The pattern, if not all of these keys match.
    check: Option<&'p [u8]>,
}

impl<'p> Candidates<'p> {
    fn of(pattern: Option<&'p [u8]>) -> Candidates<'p> {
        let Some(pattern) = pattern else {
            return Candidates {
                start: Bound::Unbounded,
                end: Bound::Unbounded,
                check: None,
            };
        };
        let (prefix, suffices) = glob::literal_prefix(pattern);
        Candidates {
            end: prefix_end(&prefix),
            start: Bound::Included(prefix),
            check: (!suffices).then_some(pattern),
        }
    }
}

/// `SCAN cursor [MATCH pattern] [COUNT n] [TYPE type]`
pub(crate) fn scan<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let cursor = cursor(&call.arguments[0])?;
    let options = ScanOptions::parse(call, 1, true)?;
    let Candidates {
        mut start,
        end,
        check,
    } = Candidates::of(options.pattern);
    if let Some(after) = recall(call, cursor)? {
        let behind_prefix = matches!(&start, Bound::Included(start) if start.as_slice() > &*after);
        if !behind_prefix {
            start = Bound::Excluded(after.into_vec());
        }
    }
    let mut found = Vec::new();
    let mut last = None;
    let mut left = options.count.min(MOST_ROWS);
    call.data
        .scan((start, end), Direction::Forward, left, |key, row| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            if options.wants(row) && check.is_none_or(|pattern| glob::matches(pattern, key, false))
            {
                found.push(key.to_vec());
            }
            if left == 0 {
                last = Some(key.to_vec());
            }
            ControlFlow::Continue(())
        })?;
    let next = last.map_or(0, |last| call.shared.cursors.remember(&last));
    let reply = &mut call.reply;
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(found.len());
    for key in &found {
        reply.bulk(key);
    }
    Ok(())
}

/// Where an iteration continues: behind the key that the cursor stands for; `None` for the
/// beginning.
fn recall<B: Backend>(call: &Call<'_, '_, '_, B>, cursor: u64) -> Outcome<Option<Box<[u8]>>> {
    if cursor == 0 {
        return Ok(None);
    }
    let known = call.shared.cursors.recall(cursor);
    known.map(Some).ok_or(Failure::text(
        "ERR invalid cursor: it is from before a restart or too old; begin again with 0",
    ))
}

/// `HSCAN key cursor [MATCH pattern] [COUNT n]`: a small hash comes whole, as in Redis; of another
/// one, the next fields in the order of their names.
pub(crate) fn hscan<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let cursor = cursor(&call.arguments[1])?;
    let options = match ScanOptions::parse(call, 2, false) {
        Ok(options) => options,
        // As in Redis, whose options are looked at once there is a hash to scan.
        Err(wrong) => {
            return match call.data.hash(&call.arguments[0], |_| ())? {
                Some(()) => Err(wrong),
                None => {
                    reply_fields(call, 0, &[]);
                    Ok(())
                }
            };
        }
    };
    let after = recall(call, cursor);
    let mut fields: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let last = call.data.hash(&call.arguments[0], |row| -> Outcome<_> {
        let is_small = row.column_count() <= SMALL_FIELDS && row.size_bytes() <= SMALL_BYTES;
        // A small hash comes whole, whatever the cursor says that is not known.
        let after = match after {
            Err(_) if is_small => None,
            after => after?,
        };
        let mut left = if is_small { usize::MAX } else { options.count };
        let mut rest = row
            .columns()
            .skip_while(|(field, _)| after.as_deref().is_some_and(|after| *field <= after))
            .peekable();
        while let Some((field, value)) = rest.next() {
            let pattern = options.pattern;
            if pattern.is_none_or(|pattern| glob::matches(pattern, field, false)) {
                fields.push((field.to_vec(), value.to_vec()));
            }
            left -= 1;
            if left == 0 && rest.peek().is_some() {
                return Ok(Some(field.to_vec()));
            }
        }
        Ok(None)
    })?;
    let next = last
        .transpose()?
        .flatten()
        .map_or(0, |last| call.shared.cursors.remember(&last));
    reply_fields(call, next, &fields);
    Ok(())
}

/// Replies the cursor at which an `HSCAN` goes on, and the fields that it found.
fn reply_fields<B: Backend>(
    call: &mut Call<'_, '_, '_, B>,
    next: u64,
    fields: &[(Vec<u8>, Vec<u8>)],
) {
    let reply = &mut call.reply;
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(2 * fields.len());
    for (field, value) in fields {
        reply.bulk(field);
        reply.bulk(value);
    }
}

/// `KEYS pattern`
pub(crate) fn keys<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let Call {
        arguments,
        data,
        reply,
        ..
    } = call;
    let Candidates { start, end, check } = Candidates::of(Some(&arguments[0]));
    let opened = reply.open_array(0);
    let (mut length, mut too_long) = (0, false);
    data.scan_keys((start, end), Direction::Forward, |key| {
        if check.is_none_or(|pattern| glob::matches(pattern, key, false)) {
            reply.bulk(key);
            length += 1;
        }
        too_long = reply.since(&opened) > LONGEST_REPLY_BYTES;
        if too_long || reply.is_full() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    if too_long {
        return Err(super::ordered::too_long());
    }
    reply.close_array(opened, length);
    Ok(())
}
