//! Calls that are sent again when that is safe, elsewhere if need be, until their deadline.
//!
//! What may be repeated depends on the call and on how far it got:
//!
//! | | not sent, for certain | sent, no answer | refused, may be retried |
//! |---|---|---|---|
//! | read | again | again | again, after a pause |
//! | write, [`Repeat::Freely`] | again | again | again, after a pause |
//! | write, [`Repeat::OnlyIfUnsent`] | again | [`Error::Unknown`] | [`Error::Unknown`] |
//!
//! A write of the second row that was perhaps applied once and then fails for good ends in
//! [`Error::Unknown`] as well, whatever its last error was: so every other error means that a write
//! was not applied. So does a checked write whose second try finds that its check does not hold:
//! its first try may be the reason. Two kinds of refusal leave the outcome open: those that HBase
//! marks as worth retrying, because a timeout within the gateway is one, and internal errors of the
//! gateway. Of a batch of several rows every refusal leaves it open, as some rows may have been
//! written.

use std::time::{Duration, Instant};

use crate::backoff::backoff;
use crate::connection::{Fault, Outcome};
use crate::error::{Error, Refusal, Result};
use crate::health::describe;
use crate::pool::{NoSlot, Pool, Slot};
use crate::wire::{Answer, Request, Shape};

/// Whether a write may be sent a second time when it is not known what became of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repeat {
    /// Writing the same twice is as good as writing it once, whatever others write in between.
    Freely,
    /// The write may be sent again only if it is certain that no gateway got it. Where it is not
    /// certain, the call ends in [`Error::Unknown`].
    OnlyIfUnsent,
}

/// What a call does to rows or tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    None,
    /// All or nothing.
    Atomic,
    /// Several rows, each by itself.
    Batch,
}

/// How calls are to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) effect: Effect,
    pub(crate) repeat: Repeat,
    /// The one gateway that can answer.
    pub(crate) only: Option<usize>,
    pub(crate) deadline: Instant,
}

/// A call that has no result yet.
struct Pending {
    /// Its place among the calls.
    nth: usize,
    request: Request,
    /// How often it was sent, or should have been.
    attempts: u32,
    /// Why it is open whether the write was applied, if it is.
    doubt: Option<Error>,
    /// Why the last attempt failed.
    last: Option<Error>,
}

impl Pending {
    /// The error that the call ends in.
    fn end(&mut self, error: Error) -> Error {
        match self.doubt.take() {
            Some(doubt) => Error::unknown(self.request.method(), doubt),
            None => error,
        }
    }
}

/// What to do with a call after an attempt.
enum Verdict<T> {
    Done(Result<T>),
    /// At once, on another connection.
    Again,
    AgainAfterPause,
}

/// Makes calls of one kind, several under way at once on a connection. Returns the result of each,
/// in their order, and the gateway that gave the last one.
pub(crate) fn run<T>(
    pool: &Pool,
    requests: Vec<Request>,
    shape: &Shape<T>,
    rules: &Rules,
) -> (Vec<Result<T>>, Option<usize>) {
    pool.counters.calls.add(requests.len());
    let mut results: Vec<Option<Result<T>>> = requests.iter().map(|_| None).collect();
    let pending = requests.into_iter().enumerate();
    let mut pending: Vec<Pending> = pending
        .map(|(nth, request)| Pending {
            nth,
            request,
            attempts: 0,
            doubt: None,
            last: None,
        })
        .collect();
    let begun = Instant::now();
    let mut used = None;
    let mut pauses = 0;
    while !pending.is_empty() {
        let mut slot = match pool.acquire(rules.deadline, used, rules.only) {
            Ok(slot) => slot,
            Err(why) => {
                for mut call in pending.drain(..) {
                    let error = without_slot(pool, &mut call, &why, begun);
                    results[call.nth] = Some(Err(error));
                }
                break;
            }
        };
        count_retries(pool, &pending, used, slot.gateway());
        used = Some(slot.gateway());
        let verdicts = attempt(pool, &mut slot, &mut pending, shape, rules);
        drop(slot);
        let must_pause = keep_pending(&mut pending, verdicts, &mut results);
        if must_pause {
            pauses += 1;
            pause(pool, pauses, rules.deadline);
        }
    }
    let results: Vec<Result<T>> = results.into_iter().flatten().collect();
    count_failures(pool, &results);
    (results, used)
}

fn count_retries(pool: &Pool, pending: &[Pending], before: Option<usize>, gateway: usize) {
    let again = pending.iter().filter(|call| call.attempts > 0).count();
    pool.counters.retries.add(again);
    if before.is_some_and(|before| before != gateway) {
        pool.counters.failovers.add(pending.len());
    }
}

fn count_failures<T>(pool: &Pool, results: &[Result<T>]) {
    let errors = results.iter().filter_map(|result| result.as_ref().err());
    pool.counters.failures.add(errors.clone().count());
    let unknown = errors.filter(|error| error.is_unknown()).count();
    pool.counters.unknown_outcomes.add(unknown);
}

/// Stores what is done, and keeps what is not. Returns whether HBase wants a pause.
fn keep_pending<T>(
    pending: &mut Vec<Pending>,
    verdicts: Vec<Verdict<T>>,
    results: &mut [Option<Result<T>>],
) -> bool {
    let mut must_pause = false;
    let mut verdicts = verdicts.into_iter();
    pending.retain(|call| match verdicts.next() {
        Some(Verdict::Done(result)) => {
            results[call.nth] = Some(result);
            false
        }
        Some(Verdict::AgainAfterPause) => {
            must_pause = true;
            true
        }
        Some(Verdict::Again) | None => true,
    });
    must_pause
}

/// Waits before the next attempt, at most until the deadline.
fn pause(pool: &Pool, pauses: u32, deadline: Instant) {
    let options = &pool.options;
    let pause = backoff(options.min_backoff, options.max_backoff, pauses);
    let left = deadline.saturating_duration_since(Instant::now());
    std::thread::sleep(pause.min(left));
}

/// The end of a call that found no gateway before its deadline.
fn without_slot(pool: &Pool, call: &mut Pending, why: &NoSlot, begun: Instant) -> Error {
    let method = call.request.method();
    let error = match (call.last.take(), why) {
        (Some(last), _) => last,
        (None, NoSlot::Down(why)) => Error::Unreachable {
            call: method,
            gateways: pool.all_addresses(),
            why: why.clone(),
        },
        (None, NoSlot::Busy) => {
            let what = "a free connection: all that the options allow were in use";
            Error::waited(method, begun.elapsed(), what)
        }
    };
    call.end(error)
}

/// Sends what is pending once, and judges what became of each call.
fn attempt<T>(
    pool: &Pool,
    slot: &mut Slot<'_>,
    pending: &mut [Pending],
    shape: &Shape<T>,
    rules: &Rules,
) -> Vec<Verdict<T>> {
    let begun = Instant::now();
    let gateway = slot.gateway();
    let is_reused = slot.is_reused();
    // A call that nobody may repeat gains nothing from an early end.
    let until = match rules.repeat {
        Repeat::Freely => rules.deadline.min(begun + pool.options.attempt_timeout),
        Repeat::OnlyIfUnsent => rules.deadline,
    };
    let connection = match slot.connection(until) {
        Ok(connection) => connection,
        Err(fault) => {
            let attempt = Attempt::new(pool, gateway, begun, rules);
            attempt.blame_for_connecting(&fault);
            let unsent = |call: &mut Pending| attempt.not_connected(call, &fault);
            return pending.iter_mut().map(unsent).collect();
        }
    };
    let mut requests: Vec<_> = pending.iter_mut().map(|call| &mut call.request).collect();
    let outcomes = connection.exchange(&mut requests, shape, until);
    let attempt = Attempt::new(pool, gateway, begun, rules);
    let fault = outcomes.iter().find_map(|outcome| match outcome {
        Outcome::Unsent(fault) | Outcome::Lost(fault) => Some(fault),
        Outcome::Answer(_) => None,
    });
    if let Some(fault) = fault {
        attempt.blame(fault, is_reused);
    }
    let outcomes = pending.iter_mut().zip(outcomes);
    let verdicts = outcomes.map(|(call, outcome)| attempt.judge(call, outcome, shape));
    verdicts.collect()
}

/// One attempt, when it is over.
struct Attempt<'a> {
    pool: &'a Pool,
    gateway: usize,
    took: Duration,
    /// Whether the calls' time is over, too.
    is_last: bool,
    rules: &'a Rules,
}

impl<'a> Attempt<'a> {
    fn new(pool: &'a Pool, gateway: usize, begun: Instant, rules: &'a Rules) -> Attempt<'a> {
        Attempt {
            pool,
            gateway,
            took: begun.elapsed(),
            is_last: Instant::now() >= rules.deadline,
            rules,
        }
    }

    /// Decides what a broken connection says about its gateway.
    fn blame(&self, fault: &Fault, is_reused: bool) {
        match fault {
            // The gateway may have closed it because it was idle, or was restarted.
            Fault::Io(_) if is_reused => self.pool.close_idle(self.gateway),
            // Too long for this side alone.
            Fault::TooLong(_) => {}
            // The caller was in a hurry, or asked for what takes long.
            Fault::TimedOut(_) if self.took < self.pool.options.attempt_timeout => {}
            Fault::TimedOut(_) if self.rules.repeat == Repeat::OnlyIfUnsent => {}
            fault => self.pool.mark_down(self.gateway, describe(fault)),
        }
    }

    fn blame_for_connecting(&self, fault: &Fault) {
        match fault {
            // The caller was in a hurry.
            Fault::TimedOut(_) if self.took < self.pool.options.connect_timeout => {}
            fault => self.pool.mark_down(self.gateway, describe(fault)),
        }
    }

    fn judge<T>(&self, call: &mut Pending, outcome: Outcome<T>, shape: &Shape<T>) -> Verdict<T> {
        call.attempts += 1;
        match outcome {
            Outcome::Answer(Answer::Result(result)) if (shape.is_negative)(&result) => {
                match call.doubt.take() {
                    Some(doubt) => Verdict::Done(Err(Error::unknown(call.request.method(), doubt))),
                    None => Verdict::Done(Ok(result)),
                }
            }
            Outcome::Answer(Answer::Result(result)) => Verdict::Done(Ok(result)),
            Outcome::Answer(Answer::Refusal(refusal)) => self.refused(call, refusal),
            Outcome::Unsent(fault) => self.again(call, &fault),
            Outcome::Lost(fault) => {
                if self.rules.effect != Effect::None {
                    call.doubt = Some(self.error(call, &fault));
                }
                match (self.rules.repeat, &fault) {
                    // The same answer would have the same length.
                    (Repeat::OnlyIfUnsent, _) | (_, Fault::TooLong(_)) => {
                        let error = self.error(call, &fault);
                        Verdict::Done(Err(call.end(error)))
                    }
                    (Repeat::Freely, _) => self.again(call, &fault),
                }
            }
        }
    }

    /// The call can be sent again, if there are attempts and time left.
    fn again<T>(&self, call: &mut Pending, fault: &Fault) -> Verdict<T> {
        let error = self.error(call, fault);
        if call.attempts >= self.pool.options.attempts || self.is_last {
            return Verdict::Done(Err(call.end(error)));
        }
        call.last = Some(error);
        Verdict::Again
    }

    /// No connection could be opened. That is no attempt: the next one waits until the gateway is
    /// healthy again, or goes to another.
    fn not_connected<T>(&self, call: &mut Pending, fault: &Fault) -> Verdict<T> {
        let error = self.error(call, fault);
        match self.is_last {
            true => Verdict::Done(Err(call.end(error))),
            false => {
                call.last = Some(error);
                Verdict::Again
            }
        }
    }

    fn refused<T>(&self, call: &mut Pending, refusal: Refusal) -> Verdict<T> {
        let is_open = match self.rules.effect {
            Effect::None => false,
            Effect::Atomic => !refusal.rules_out_effects(),
            Effect::Batch => true,
        };
        let is_retried = !refusal.is_permanent()
            && self.rules.repeat == Repeat::Freely
            && call.attempts < self.pool.options.attempts
            && !self.is_last;
        let error = Error::Refused {
            call: call.request.method(),
            refusal,
        };
        if is_open {
            call.doubt = Some(error.clone());
        }
        if is_retried {
            call.last = Some(error);
            return Verdict::AgainAfterPause;
        }
        Verdict::Done(Err(call.end(error)))
    }

    /// The error that a fault is for the caller.
    fn error(&self, call: &Pending, fault: &Fault) -> Error {
        let method = call.request.method();
        let gateway = self.pool.address(self.gateway).to_string();
        match fault {
            Fault::TimedOut(_) if self.is_last => {
                let what = format!("the answer of {gateway}");
                Error::waited(method, self.took, &what)
            }
            Fault::TooLong(bytes) => Error::ReplyTooLong {
                call: method,
                gateway,
                bytes: *bytes,
                limit: self.pool.options.reply_limit_bytes,
            },
            Fault::Malformed(why) => Error::Protocol {
                call: method,
                gateway,
                why: why.clone(),
            },
            Fault::TimedOut(_) | Fault::Io(_) => Error::Unreachable {
                call: method,
                gateways: gateway,
                why: describe(fault),
            },
        }
    }
}
