//! Commands that put a row under another key, or into another database, with all that belongs to
//! it: `RENAME`, `COPY`, `MOVE`. Each reads and changes both keys in one commit.

use hedgerow::backend::{Backend, Capability};
use hedgerow::{Action, Row, RowBuilder};

use crate::resp::arguments::Arguments;
use crate::resp::command::Call;
use crate::resp::data::Data;
use crate::resp::failure::{Failure, Outcome, needs};
use crate::resp::number;
use crate::shared::Shared;

/// A row taken out of the index, to be put elsewhere.
struct CopiedRow {
    content: Content,
    expiry_ms: Option<u64>,
    user_flags: u32,
    marks: u8,
}

enum Content {
    Value(Vec<u8>),
    Columns(Vec<(Vec<u8>, Vec<u8>)>),
}

impl CopiedRow {
    fn of(row: Row<'_>) -> CopiedRow {
        let content = match row.value() {
            Some(value) => Content::Value(value.to_vec()),
            None => {
                let columns = row.columns();
                Content::Columns(columns.map(|(n, v)| (n.to_vec(), v.to_vec())).collect())
            }
        };
        CopiedRow {
            content,
            expiry_ms: row.expiry_ms(),
            user_flags: row.user_flags(),
            marks: row.marks(),
        }
    }

    /// Makes the new row the same as this one, whatever it was.
    fn write(&mut self, new: &mut RowBuilder<'_>) {
        new.set_expiry_ms(self.expiry_ms)
            .set_user_flags(self.user_flags);
        match &mut self.content {
            Content::Value(value) => {
                new.set_value_owned(std::mem::take(value))
                    .set_marks(self.marks);
            }
            Content::Columns(columns) => {
                new.clear_columns();
                for (name, value) in &*columns {
                    new.set_column(name, value);
                }
            }
        }
    }
}

/// Where a row is copied to, and whether it may replace another.
struct Destination<'t, 'k, K> {
    keyspace: &'t K,
    key: &'k [u8],
    /// A row that is there is replaced.
    replace: bool,
}

/// What became of a row that was to go elsewhere.
#[derive(PartialEq, Eq)]
enum CopyOutcome {
    Done,
    /// There is no such row.
    Missing,
    /// The destination is taken.
    Taken,
}

/// Puts the row of `source` at its destination too, or instead if `remove`.
fn place<'t, B: Backend>(
    data: &mut Data<'t, '_, B>,
    source: &[u8],
    to: &Destination<'t, '_, B::Keyspace>,
    remove: bool,
) -> Outcome<CopyOutcome> {
    let from = data.keyspace();
    let Some(mut taken) = data.read(source, CopiedRow::of)? else {
        return Ok(CopyOutcome::Missing);
    };
    data.select(to.keyspace);
    let done = data.update(to.key, |row, new| {
        if row.is_some() && !to.replace {
            return Action::Keep(false);
        }
        // Asked once: it stages a change of a transaction.
        taken.write(new);
        Action::Put(true)
    });
    data.select(from);
    if !done? {
        return Ok(CopyOutcome::Taken);
    }
    if remove {
        data.remove(source)?;
    }
    Ok(CopyOutcome::Done)
}

/// Renames; whether it was done, which a destination that is taken can forbid.
fn rename_to<B: Backend>(call: &mut Call<'_, '_, '_, B>, replace: bool) -> Outcome<bool> {
    let (source, key) = (&call.arguments[0], &call.arguments[1]);
    let no_such_key = || Failure::text("ERR no such key");
    if source == key {
        let found = call.data.read(source, |_| ())?;
        return found.map(|()| replace).ok_or_else(no_such_key);
    }
    let keyspace = call.data.keyspace();
    let to = Destination {
        keyspace,
        key,
        replace,
    };
    match place(call.data, source, &to, true)? {
        CopyOutcome::Missing => Err(no_such_key()),
        placed => Ok(placed == CopyOutcome::Done),
    }
}

/// `RENAME key newkey`
pub(crate) fn rename<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    rename_to(call, true)?;
    call.reply.ok();
    Ok(())
}

/// `RENAMENX key newkey`
pub(crate) fn renamenx<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let done = rename_to(call, false)?;
    call.reply.integer(done.into());
    Ok(())
}

/// The options of `COPY`.
struct CopyOptions {
    database: usize,
    replace: bool,
}

impl CopyOptions {
    /// Reads what stands behind the two keys.
    fn parse(options: Arguments<'_>, own_database: usize) -> Outcome<CopyOptions> {
        let mut parsed = CopyOptions {
            database: own_database,
            replace: false,
        };
        let mut i = 0;
        while let Some(option) = options.get(i) {
            if option.eq_ignore_ascii_case(b"REPLACE") {
                parsed.replace = true;
                i += 1;
            } else if let (true, Some(database)) =
                (option.eq_ignore_ascii_case(b"DB"), options.get(i + 1))
            {
                parsed.database = number::database(database)?;
                i += 2;
            } else {
                return Err(Failure::Syntax);
            }
        }
        Ok(parsed)
    }
}

const SAME: &str = "ERR source and destination objects are the same";

/// `COPY source destination [DB database] [REPLACE]`
pub(crate) fn copy<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let arguments = call.arguments;
    let own_database = call.session.database;
    let CopyOptions { database, replace } = CopyOptions::parse(arguments.from(2), own_database)?;
    let (source, key) = (&arguments[0], &arguments[1]);
    if database == own_database && source == key {
        return Err(Failure::text(SAME));
    }
    let to = Destination {
        keyspace: call.shared.keyspace(database)?,
        key,
        replace,
    };
    let placed = place(call.data, source, &to, false)?;
    call.reply.integer((placed == CopyOutcome::Done).into());
    Ok(())
}

/// `MOVE key database`
pub(crate) fn move_to<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let key = &call.arguments[0];
    let database = number::database(&call.arguments[1])?;
    if database == call.session.database {
        return Err(Failure::text(SAME));
    }
    let to = Destination {
        keyspace: call.shared.keyspace(database)?,
        key,
        replace: false,
    };
    let placed = place(call.data, key, &to, true)?;
    call.reply.integer((placed == CopyOutcome::Done).into());
    Ok(())
}

/// The key that `COPY` or `MOVE` writes in another database, which must be locked there. The
/// request has the command's name in front.
pub(crate) fn key_elsewhere<'s, 'a, B: Backend>(
    shared: &'s Shared<B>,
    command: &str,
    request: Arguments<'a>,
    own_database: usize,
) -> Outcome<Option<(&'s B::Keyspace, &'a [u8])>> {
    let (database, key) = match command {
        // What is malformed fails later, and touches nothing.
        "COPY" => {
            let options = CopyOptions::parse(request.from(3), own_database).ok();
            (options.map(|options| options.database), request.get(2))
        }
        "MOVE" => {
            let database = request.get(2).map(number::database);
            (database.and_then(Outcome::ok), request.get(1))
        }
        _ => return Ok(None),
    };
    let (Some(database), Some(key)) = (database.filter(|to| *to != own_database), key) else {
        return Ok(None);
    };
    // Before the other database is made.
    needs(&*shared.db, Capability::SeveralRows)?;
    Ok(Some((shared.keyspace(database)?, key)))
}
