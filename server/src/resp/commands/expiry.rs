//! Commands about when keys expire.

use hedgerow::Action;
use hedgerow::backend::Backend;

use crate::resp::command::Call;
use crate::resp::failure::{Failure, Outcome};
use crate::resp::number;
use crate::shared::now_ms;

/// How a moment is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deadline {
    Seconds,
    Milliseconds,
    UnixSeconds,
    UnixMilliseconds,
}

impl Deadline {
    /// The form that an option of `SET` or `GETEX` announces.
    pub(crate) fn option(option: &[u8]) -> Option<Deadline> {
        let forms = [
            (&b"EX"[..], Deadline::Seconds),
            (b"PX", Deadline::Milliseconds),
            (b"EXAT", Deadline::UnixSeconds),
            (b"PXAT", Deadline::UnixMilliseconds),
        ];
        let found = forms
            .iter()
            .find(|(name, _)| option.eq_ignore_ascii_case(name));
        found.map(|&(_, deadline)| deadline)
    }

    /// The same of an option that may follow another with a deadline: one of the same form replaces
    /// it, of another form contradicts it.
    pub(crate) fn again(before: Option<(Deadline, &[u8])>, option: &[u8]) -> Option<Deadline> {
        let form = Deadline::option(option);
        form.filter(|form| before.is_none_or(|(before, _)| before == *form))
    }

    /// Milliseconds since the Unix epoch, possibly in the past.
    fn unix_ms(self, value: i64) -> Option<i64> {
        let ms = match self {
            Deadline::Seconds | Deadline::UnixSeconds => value.checked_mul(1000)?,
            Deadline::Milliseconds | Deadline::UnixMilliseconds => value,
        };
        match self {
            Deadline::Seconds | Deadline::Milliseconds => ms.checked_add(now_ms() as i64),
            Deadline::UnixSeconds | Deadline::UnixMilliseconds => Some(ms),
        }
    }

    /// The moment that an argument names, which must be positive.
    pub(crate) fn positive_ms(self, argument: &[u8], command: &str) -> Outcome<u64> {
        let value = number::argument(argument)?;
        let moment = (value > 0).then(|| self.unix_ms(value)).flatten();
        moment.map(|ms| ms as u64).ok_or_else(|| invalid(command))
    }
}

fn invalid(command: &str) -> Failure {
    Failure::text(format!("ERR invalid expire time in '{command}' command"))
}

/// The conditions of `EXPIRE` and its siblings.
#[derive(Default)]
struct Conditions {
    only_without: bool,
    only_with: bool,
    only_later: bool,
    only_earlier: bool,
}

impl Conditions {
    fn parse<B: Backend>(call: &Call<'_, '_, '_, B>) -> Outcome<Conditions> {
        let mut conditions = Conditions::default();
        for option in call.arguments.from(2).iter() {
            match option.to_ascii_uppercase().as_slice() {
                b"NX" => conditions.only_without = true,
                b"XX" => conditions.only_with = true,
                b"GT" => conditions.only_later = true,
                b"LT" => conditions.only_earlier = true,
                _ => {
                    let option = String::from_utf8_lossy(option);
                    return Err(Failure::text(format!("ERR Unsupported option {option}")));
                }
            }
        }
        let Conditions {
            only_without,
            only_with,
            only_later,
            only_earlier,
        } = conditions;
        if only_without && (only_with || only_later || only_earlier) {
            return Err(Failure::text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if only_later && only_earlier {
            let text = "ERR GT and LT options at the same time are not compatible";
            return Err(Failure::text(text));
        }
        Ok(conditions)
    }

    /// Whether the change from one moment to another is wanted; never is later than all.
    fn allow(&self, from: Option<u64>, to: i64) -> bool {
        let from_ms = from.map(signed_ms);
        !(self.only_without && from.is_some()
            || self.only_with && from.is_none()
            || self.only_later && from_ms.is_none_or(|from_ms| to <= from_ms)
            || self.only_earlier && from_ms.is_some_and(|from_ms| to >= from_ms))
    }
}

fn expire_at<B: Backend>(
    call: &mut Call<'_, '_, '_, B>,
    deadline: Deadline,
    name: &str,
) -> Outcome {
    let conditions = Conditions::parse(call)?;
    let value = number::argument(&call.arguments[1])?;
    let expiry_ms = deadline.unix_ms(value).ok_or_else(|| invalid(name))?;
    let now_ms = now_ms() as i64;
    let done = call.data.update(&call.arguments[0], |row, new| {
        let Some(row) = row.filter(|row| conditions.allow(row.expiry_ms(), expiry_ms)) else {
            return Action::Keep(0);
        };
        if expiry_ms <= now_ms {
            return Action::Remove(1);
        }
        if row.expiry_ms() == Some(expiry_ms as u64) {
            return Action::Keep(1);
        }
        new.set_expiry_ms(Some(expiry_ms as u64));
        Action::Put(1)
    })?;
    call.reply.integer(done);
    Ok(())
}

/// `EXPIRE key seconds [NX | XX | GT | LT]`
pub(crate) fn expire<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    expire_at(call, Deadline::Seconds, "expire")
}

/// `PEXPIRE key milliseconds [NX | XX | GT | LT]`
pub(crate) fn pexpire<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    expire_at(call, Deadline::Milliseconds, "pexpire")
}

/// `EXPIREAT key unix-seconds [NX | XX | GT | LT]`
pub(crate) fn expireat<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    expire_at(call, Deadline::UnixSeconds, "expireat")
}

/// `PEXPIREAT key unix-milliseconds [NX | XX | GT | LT]`
pub(crate) fn pexpireat<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    expire_at(call, Deadline::UnixMilliseconds, "pexpireat")
}

/// A moment as a Redis client can read it: what is beyond its numbers is the last that is not.
fn signed_ms(expiry_ms: u64) -> i64 {
    i64::try_from(expiry_ms).unwrap_or(i64::MAX)
}

/// Milliseconds as the nearest number of seconds.
fn rounded_s(ms: i64) -> i64 {
    ms / 1000 + i64::from(ms % 1000 >= 500)
}

/// Milliseconds from the time at which the row was read.
fn left_ms<B: Backend>(call: &Call<'_, '_, '_, B>) -> impl FnOnce(i64) -> i64 + use<B> {
    let time_ms = signed_ms(call.data.time_ms());
    move |expiry_ms| (expiry_ms - time_ms).max(0)
}

/// Replies -2 for no key, -1 for no expiry, else what `show` makes of it.
fn show_expiry<B: Backend>(
    call: &mut Call<'_, '_, '_, B>,
    show: impl FnOnce(i64) -> i64,
) -> Outcome {
    let expiry_ms = call.data.read(&call.arguments[0], |row| row.expiry_ms())?;
    call.reply.integer(match expiry_ms {
        None => -2,
        Some(None) => -1,
        Some(Some(expiry_ms)) => show(signed_ms(expiry_ms)),
    });
    Ok(())
}

/// `TTL key`
pub(crate) fn ttl<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let left_ms = left_ms(call);
    show_expiry(call, |expiry_ms| rounded_s(left_ms(expiry_ms)))
}

/// `PTTL key`
pub(crate) fn pttl<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let left_ms = left_ms(call);
    show_expiry(call, left_ms)
}

/// `EXPIRETIME key`
pub(crate) fn expiretime<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    show_expiry(call, rounded_s)
}

/// `PEXPIRETIME key`
pub(crate) fn pexpiretime<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    show_expiry(call, |expiry_ms| expiry_ms)
}

/// `PERSIST key`
pub(crate) fn persist<B: Backend>(call: &mut Call<'_, '_, '_, B>) -> Outcome {
    let done = call.data.update(&call.arguments[0], |row, new| {
        if row.is_none_or(|row| row.expiry_ms().is_none()) {
            return Action::Keep(0);
        }
        new.set_expiry_ms(None);
        Action::Put(1)
    })?;
    call.reply.integer(done);
    Ok(())
}
