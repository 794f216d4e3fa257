//! What a command is: its name, how many arguments it takes, which of those are keys, its
//! properties, and what the function that does the work gets.

use hedgerow::backend::Backend;

use crate::protocol::effects::Effects;
use crate::protocol::request::MANY_ARGUMENTS;
use crate::resp::arguments::Arguments;
use crate::resp::data::Data;
use crate::resp::failure::Outcome;
use crate::resp::reply::Reply;
use crate::resp::session::Session;
use crate::shared::Shared;

/// The longest name of a command.
pub(super) const LONGEST_NAME: usize = 16;

/// Properties of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flags(u16);

impl Flags {
    pub(super) const NONE: Flags = Flags(0);
    pub(crate) const WRITE: Flags = Flags(1);
    pub(super) const READ: Flags = Flags(2);
    pub(super) const FAST: Flags = Flags(4);
    pub(super) const ADMIN: Flags = Flags(8);
    /// May come before authentication.
    pub(crate) const NO_AUTH: Flags = Flags(16);
    /// May not come between `MULTI` and `EXEC`.
    pub(crate) const NO_MULTI: Flags = Flags(32);
    /// Runs at once between `MULTI` and `EXEC`.
    pub(crate) const IMMEDIATE: Flags = Flags(64);
    /// Its several keys are read and changed in one commit: refused half-way, it changes nothing.
    pub(crate) const ATOMIC: Flags = Flags(128);
    /// Concerns keys that its arguments do not name.
    pub(crate) const WHOLE: Flags = Flags(256);
    /// Reads and changes several rows in one commit, however many keys it names.
    pub(super) const SEVERAL: Flags = Flags(512);
    /// Of several keys, each may be read or changed by itself where the backend cannot do it in one
    /// commit.
    pub(super) const SEPARABLE: Flags = Flags(2048);
    /// Takes time that grows with what it finds, so that its own time is taken.
    pub(super) const LONG: Flags = Flags(1024);

    pub(super) const fn and(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    pub(crate) const fn has(self, flag: Flags) -> bool {
        self.0 & flag.0 != 0
    }

    /// The names that `COMMAND` gives to those flags that Redis has too.
    pub(crate) fn names(self) -> Vec<&'static str> {
        let names = [
            (Flags::WRITE, "write"),
            (Flags::READ, "readonly"),
            (Flags::FAST, "fast"),
            (Flags::ADMIN, "admin"),
            (Flags::NO_AUTH, "no_auth"),
            (Flags::NO_MULTI, "no_multi"),
        ];
        names
            .iter()
            .filter(|(flag, _)| self.has(*flag))
            .map(|&(_, name)| name)
            .collect()
    }
}

/// A command.
pub(crate) struct Command {
    /// In upper case.
    pub(crate) name: &'static str,
    /// How many arguments it takes, its name included; negative: at least so many.
    pub(crate) arity: i8,
    /// The first key, the last (negative: from the end), and the step; zeros for no keys.
    pub(crate) keys: (i8, i8, i8),
    pub(crate) flags: Flags,
    pub(crate) group: &'static str,
    pub(crate) summary: &'static str,
}

impl Command {
    /// Whether a request of so many arguments, the name included, is well-formed.
    pub(crate) fn accepts(&self, count: usize) -> bool {
        let arity = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 {
            count >= arity
        } else {
            count == arity
        }
    }

    /// Whether a request of so many arguments can take much longer than reading the clock.
    pub(crate) fn may_take_long(&self, arguments: usize) -> bool {
        self.flags.has(Flags::LONG) || arguments > MANY_ARGUMENTS
    }

    /// Whether a request, the name included, must run as one commit of several rows.
    pub(crate) fn is_transaction(&self, request: Arguments<'_>) -> bool {
        self.flags.has(Flags::SEVERAL)
            || (self.flags.has(Flags::ATOMIC) && self.keys(request).nth(1).is_some())
    }

    /// The categories that Redis' access control puts such a command in.
    pub(crate) fn categories(&self) -> Vec<&'static str> {
        let group = match self.group {
            "generic" => Some("keyspace"),
            "transactions" => Some("transaction"),
            "server" | "ordered" => None,
            group => Some(group),
        };
        let mut categories: Vec<&str> = group.into_iter().collect();
        for (flag, category) in [
            (Flags::WRITE, "write"),
            (Flags::READ, "read"),
            (Flags::ADMIN, "admin"),
            (Flags::ADMIN, "dangerous"),
        ] {
            if self.flags.has(flag) {
                categories.push(category);
            }
        }
        categories.push(if self.flags.has(Flags::FAST) {
            "fast"
        } else {
            "slow"
        });
        categories
    }

    /// The keys among a request's arguments, the name included.
    pub(crate) fn keys<'a>(
        &self,
        request: Arguments<'a>,
    ) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (first, last, step) = self.keys;
        let end = if last < 0 {
            (request.len() + 1).saturating_sub(usize::from(last.unsigned_abs()))
        } else {
            last as usize + 1
        };
        let count = if first > 0 { end.min(request.len()) } else { 0 };
        (first.max(1) as usize..count)
            .step_by(step.max(1) as usize)
            .filter_map(move |i| request.get(i))
    }
}

/// The number of the command of this name, in any case, among `commands`, which are sorted by name.
#[inline]
pub(crate) fn find(commands: &[Command], name: &[u8]) -> Option<usize> {
    let mut upper = [0; LONGEST_NAME];
    let upper = upper.get_mut(..name.len())?;
    upper.copy_from_slice(name);
    upper.make_ascii_uppercase();
    commands
        .binary_search_by(|command| command.name.as_bytes().cmp(upper))
        .ok()
}

/// What runs a command.
pub(crate) type Run<B> = fn(&mut Call<'_, '_, '_, B>) -> Outcome;

/// All commands and what runs them, by their numbers.
pub(crate) struct Commands<B: Backend> {
    pub(crate) all: &'static [Command],
    pub(crate) runs: &'static [Run<B>],
}

impl<B: Backend> Clone for Commands<B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for Commands<B> {}

impl<B: Backend> Commands<B> {
    /// The command of a number.
    pub(crate) fn command(self, code: u32) -> &'static Command {
        &self.all[code as usize]
    }

    /// Runs the command of a number.
    #[inline]
    pub(crate) fn run(self, code: u32, call: &mut Call<'_, '_, '_, B>) -> Outcome {
        let outcome = (self.runs[code as usize])(call);
        if self.command(code).flags.has(Flags::READ) {
            call.ran.looked_up.add(call.data.looked_up());
        }
        outcome
    }
}

/// One command under way.
pub(crate) struct Call<'c, 't, 'a, B: Backend> {
    pub(crate) commands: Commands<B>,
    pub(crate) arguments: Arguments<'c>,
    pub(crate) data: &'c mut Data<'t, 'a, B>,
    pub(crate) session: &'c mut Session<B>,
    pub(crate) reply: Reply<'c>,
    pub(crate) shared: &'t Shared<B>,
    pub(crate) ran: &'c mut Effects,
}
