//! Whether what transactions read and wrote has an order that explains it.
//!
//! Each account counts its writes, so an attempt's reads say which writes it saw. An attempt comes
//! after those that wrote what it read, and before those that wrote the next version. If no two
//! replaced the same version, no update was lost; if these relations have no cycle, the attempts
//! in any order that agrees with them, one by one, read and write just that (serializability by
//! the graph of conflicts: Bernstein, Hadzilacos, Goodman, 1987, §2.3). Where there is a cycle,
//! some transaction read two accounts at different moments.
//!
//! The testkit, which is for tests alone, has a checker that finds orders of versions where answers
//! only hint at them. Here the versions are in the answers.

use crate::wire::{Account, Attempt};
use crate::{LabError, Result};

/// No attempt.
const NOBODY: u32 = u32::MAX;

/// The accounts as the committed attempts left them; there were so many, just opened. Attempts that
/// were refused must have read what others committed, too, and both accounts at one moment where
/// they `are_snapshots`.
///
/// # Errors
///
/// What no order explains.
pub(super) fn explained(
    attempts: &[Attempt],
    accounts: usize,
    are_snapshots: bool,
) -> Result<Vec<Account>> {
    let history = History {
        attempts,
        writers: writers(attempts, accounts)?,
    };
    history.check_reads()?;
    let edges = history.edges(are_snapshots);
    if has_cycle(attempts.len(), edges) {
        let what = "a transaction read two accounts at different moments";
        return Err(LabError::WrongAnswer(what.to_owned()));
    }
    let mut last = vec![Account::OPENED; accounts];
    for (number, account) in last.iter_mut().enumerate() {
        let version = history.writers[number].len() as u64;
        let found = history.version(number, version);
        *account = found.ok_or_else(|| unknown_version(number, version))?;
    }
    Ok(last)
}

/// By account and version, which attempt replaced that version.
type Writers = Vec<Vec<u32>>;

fn writers(attempts: &[Attempt], accounts: usize) -> Result<Writers> {
    let mut writers = vec![Vec::new(); accounts];
    let all = attempts.iter().zip(0..);
    for (attempt, nth) in all.filter(|(attempt, _)| attempt.is_committed) {
        for (account, read) in attempt.accounts.into_iter().zip(attempt.read) {
            let version = read.version as usize;
            if version >= attempts.len() {
                return Err(unknown_version(account, read.version));
            }
            let of_account = &mut writers[account];
            if of_account.len() <= version {
                of_account.resize(version + 1, NOBODY);
            }
            if of_account[version] != NOBODY {
                return Err(LabError::WrongAnswer(format!(
                    "an update was lost: two transactions replaced version {version} of account \
                     {account}"
                )));
            }
            of_account[version] = nth;
        }
    }
    Ok(writers)
}

fn unknown_version(account: usize, version: u64) -> LabError {
    LabError::WrongAnswer(format!(
        "nobody committed version {version} of account {account}, which a transaction read"
    ))
}

/// Attempts, and what they wrote.
struct History<'a> {
    attempts: &'a [Attempt],
    writers: Writers,
}

impl History<'_> {
    /// Which attempt wrote a version; none wrote the one that an account is opened with.
    fn writer(&self, account: usize, version: u64) -> Option<u32> {
        let replaced = version.checked_sub(1)?;
        let nth = *self.writers[account].get(replaced as usize)?;
        (nth != NOBODY).then_some(nth)
    }

    /// What an account was in a version; `None` where there was none such.
    fn version(&self, account: usize, version: u64) -> Option<Account> {
        if version == 0 {
            return Some(Account::OPENED);
        }
        let writer = &self.attempts[self.writer(account, version)? as usize];
        let mut written = writer.accounts.into_iter().zip(writer.written());
        written
            .find(|(number, _)| *number == account)
            .map(|(_, account)| account)
    }

    /// Whether everything that was read had been written so.
    fn check_reads(&self) -> Result<()> {
        for attempt in self.attempts {
            for (account, read) in attempt.accounts.into_iter().zip(attempt.read) {
                let written = self.version(account, read.version);
                let written = written.ok_or_else(|| unknown_version(account, read.version))?;
                if written != read {
                    return Err(LabError::WrongAnswer(format!(
                        "account {account} was read as {read:?} and written as {written:?}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Which attempt comes before which, of the committed ones or of all.
    fn edges(&self, are_all: bool) -> Vec<(u32, u32)> {
        let mut edges = Vec::new();
        let all = self.attempts.iter().zip(0..);
        for (attempt, nth) in all.filter(|(attempt, _)| are_all || attempt.is_committed) {
            for (account, read) in attempt.accounts.into_iter().zip(attempt.read) {
                let before = self.writer(account, read.version);
                let after = self.writer(account, read.version + 1);
                edges.extend(before.map(|writer| (writer, nth)));
                edges.extend(after.filter(|&writer| writer != nth).map(|w| (nth, w)));
            }
        }
        edges
    }
}

/// Whether the edges of so many nodes lead anywhere back to where they began.
fn has_cycle(nodes: usize, mut edges: Vec<(u32, u32)>) -> bool {
    edges.sort_unstable();
    let mut before = vec![0_u32; nodes];
    for (_, later) in &edges {
        before[*later as usize] += 1;
    }
    let nobody_before = |nth: &u32| before[*nth as usize] == 0;
    let mut ready: Vec<u32> = (0..nodes as u32).filter(nobody_before).collect();
    let mut ordered = 0;
    while let Some(nth) = ready.pop() {
        ordered += 1;
        let first = edges.partition_point(|(earlier, _)| *earlier < nth);
        let of_this = edges[first..].iter();
        for (_, later) in of_this.take_while(|(earlier, _)| *earlier == nth) {
            before[*later as usize] -= 1;
            if before[*later as usize] == 0 {
                ready.push(*later);
            }
        }
    }
    ordered < nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attempt by a server that keeps these accounts, and what it leaves there if committed.
    fn attempt(state: &mut [Account], accounts: [usize; 2], is_committed: bool) -> Attempt {
        let attempt = Attempt {
            accounts,
            read: accounts.map(|account| state[account]),
            moved: 7,
            is_committed,
        };
        if is_committed {
            for (account, written) in accounts.into_iter().zip(attempt.written()) {
                state[account] = written;
            }
        }
        attempt
    }

    fn is_wrong(attempts: &[Attempt], are_snapshots: bool, why: &str) -> bool {
        let error = explained(attempts, 3, are_snapshots).expect_err("it cannot be");
        error.to_string().contains(why)
    }

    #[test]
    fn a_serial_history_is_explained_in_whatever_order_it_was_seen() {
        let mut state = [Account::OPENED; 3];
        let pairs = [[0, 1], [1, 2], [2, 0], [1, 0], [0, 1]];
        let attempts = pairs.into_iter().zip(0..);
        let mut attempts: Vec<Attempt> = attempts
            .map(|(pair, nth)| attempt(&mut state, pair, nth != 2))
            .collect();
        for _ in 0..attempts.len() {
            attempts.rotate_left(1);
            let found = explained(&attempts, 3, true).expect("it was serial");
            assert_eq!(found, state);
            let sum: u64 = found.iter().map(|account| account.balance).sum();
            assert_eq!(sum, 3 * Account::OPENED.balance);
        }
    }

    #[test]
    fn a_lost_update_and_a_read_of_what_was_not_committed_are_found() {
        let mut state = [Account::OPENED; 3];
        let first = attempt(&mut state, [0, 1], true);
        let lost = Attempt {
            accounts: [0, 2],
            read: [Account::OPENED; 2],
            ..first
        };
        assert!(is_wrong(&[first, lost], false, "lost"));
        let second = attempt(&mut state, [1, 2], true);
        let refused = Attempt {
            is_committed: false,
            ..first
        };
        assert!(is_wrong(&[refused, second], false, "nobody committed"));
        let mut torn = second;
        torn.read[0].balance += 1;
        assert!(is_wrong(&[first, torn], false, "was read as"));
    }

    /// One writes accounts 0 and 1; another reads 0 from before and 1 from after.
    #[test]
    fn reads_at_different_moments_are_found() {
        let mut state = [Account::OPENED; 3];
        let writer = attempt(&mut state, [0, 1], true);
        let between = Attempt {
            read: [Account::OPENED, state[1]],
            is_committed: false,
            ..writer
        };
        assert!(is_wrong(&[between, writer], true, "different moments"));
        // Who is refused after `WATCH` may have seen that.
        assert!(explained(&[between, writer], 3, false).is_ok());
        // Each committed one of three gives what another had received before it did.
        let received = writer.written()[1];
        let cycle = [[0, 1], [1, 2], [2, 0]].map(|accounts| Attempt {
            accounts,
            read: [received, Account::OPENED],
            ..writer
        });
        assert!(is_wrong(&cycle, false, "different moments"));
    }
}
