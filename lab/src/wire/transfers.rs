//! Interactive transactions in Redis's protocol: amounts move between pairs of accounts.
//!
//! A transaction takes two round trips, as a client would pipeline it: one begins it and reads two
//! accounts; the other stores both, changed, and commits. What a server answers cannot be known
//! beforehand, as other connections write the same accounts. So each account counts its writes, and
//! the client remembers what every attempt read and whether it was committed; whoever has all
//! attempts can tell whether they make sense together. A transaction that is refused begins again
//! at once, with the same accounts.
//!
//! As in [`throughput`](super::throughput) connections are blocking and visited in turn. Requests
//! are built before the clock starts, but for the values.

use std::io::Write;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use hedgerow_lab_data::Keys;
use hedgerow_lab_data::random::Random;

use super::load::{play_once, read_some};
use super::place::{Stream, connect};
use super::script::{Script, resp_array, resp_bulk};
use crate::{LabError, Result};

/// Bytes of an account's value: two numbers of twelve decimal digits.
const VALUE_BYTES: usize = 24;

/// Bytes of each of the two.
const NUMBER_BYTES: usize = VALUE_BYTES / 2;

/// The most that one transaction moves.
const MOST_MOVED: u64 = 100;

/// Requests that an untimed connection sends at once, and how many such connections there are.
const UNTIMED_DEPTH: usize = 64;
const UNTIMED_CONNECTIONS: usize = 4;

/// Accounts that are stored or compared by one script.
const SLICE_ACCOUNTS: usize = 1 << 18;

/// What a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    /// What is in it.
    pub balance: u64,
    /// How often it has been written since it was opened.
    pub version: u64,
}

impl Account {
    /// As it is opened.
    pub const OPENED: Self = Self {
        balance: 1_000_000,
        version: 0,
    };

    /// Writes the value that a server stores.
    fn write(&self, mut value: &mut [u8]) -> Result<()> {
        let Self { balance, version } = self;
        Ok(write!(value, "{balance:012}{version:012}")?)
    }

    fn value(&self) -> Result<[u8; VALUE_BYTES]> {
        let mut value = [0; VALUE_BYTES];
        self.write(&mut value)?;
        Ok(value)
    }

    /// What a server's value says; `None` where it is no account's.
    fn read(value: &[u8; VALUE_BYTES]) -> Option<Self> {
        let number = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).ok()?;
            digits.parse().ok()
        };
        Some(Self {
            balance: number(&value[..NUMBER_BYTES])?,
            version: number(&value[NUMBER_BYTES..])?,
        })
    }
}

/// One run of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The positions of the two accounts; the amount moves from the first to the second.
    pub accounts: [usize; 2],
    /// What it read of them.
    pub read: [Account; 2],
    /// How much it moves.
    pub moved: u64,
    /// Whether that happened, or another transaction was in its way.
    pub is_committed: bool,
}

impl Attempt {
    /// What it makes of the two accounts.
    #[must_use]
    pub fn written(&self) -> [Account; 2] {
        let [from, to] = self.read;
        let after = |account: Account, balance| Account {
            balance,
            version: account.version + 1,
        };
        [
            after(from, from.balance.saturating_sub(self.moved)),
            after(to, to.balance + self.moved),
        ]
    }
}

/// How a client asks for a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferForm {
    /// Ours: `BEGIN SERIALIZABLE`, both `GET`s; both `SET`s, `COMMIT`.
    Begin,
    /// Redis's: `WATCH`, both `GET`s; `MULTI`, both `SET`s, `EXEC`.
    Watch,
}

/// What stands before the first value of a first trip's reply, and before the second.
const BEFORE_VALUES: [&[u8]; 2] = [b"+OK\r\n$24\r\n", b"\r\n$24\r\n"];

impl TransferForm {
    /// Appends the first trip's requests.
    fn begin(self, keys: [&[u8]; 2], request: &mut Vec<u8>) {
        match self {
            Self::Begin => resp_array(request, &[b"BEGIN", b"SERIALIZABLE"]),
            Self::Watch => resp_array(request, &[b"WATCH", keys[0], keys[1]]),
        }
        for key in keys {
            resp_array(request, &[b"GET", key]);
        }
    }

    /// Appends the second trip's requests with room for the values; where these are.
    fn commit(self, keys: [&[u8]; 2], request: &mut Vec<u8>) -> [usize; 2] {
        if self == Self::Watch {
            resp_array(request, &[b"MULTI"]);
        }
        let places = keys.map(|key| {
            resp_array(request, &[b"SET", key, &[b'0'; VALUE_BYTES]]);
            request.len() - b"\r\n".len() - VALUE_BYTES
        });
        match self {
            Self::Begin => resp_array(request, &[b"COMMIT"]),
            Self::Watch => resp_array(request, &[b"EXEC"]),
        }
        places
    }

    /// Whether a transaction was committed; `None` as long as a part of the reply is missing.
    fn outcome(self, received: &[u8]) -> Result<Option<bool>> {
        let (committed, refused): (&[u8], &[u8]) = match self {
            Self::Begin => (b"+OK\r\n+OK\r\n+OK\r\n", b"+OK\r\n+OK\r\n-CONFLICT "),
            Self::Watch => (
                b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n",
                b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*-1\r\n",
            ),
        };
        if received == committed {
            return Ok(Some(true));
        }
        if received.starts_with(refused) {
            return Ok(received.ends_with(b"\r\n").then_some(false));
        }
        match committed.starts_with(received) || refused.starts_with(received) {
            true => Ok(None),
            false => Err(unexpected(received)),
        }
    }
}

/// The two accounts of a first trip's reply; `None` as long as a part of it is missing.
fn accounts_of(received: &[u8]) -> Result<Option<[Account; 2]>> {
    let (mut rest, mut accounts) = (received, [Account::OPENED; 2]);
    for (before, account) in BEFORE_VALUES.into_iter().zip(&mut accounts) {
        let Some(behind) = rest.strip_prefix(before) else {
            return match before.starts_with(rest) {
                true => Ok(None),
                false => Err(unexpected(received)),
            };
        };
        let Some((value, behind)) = behind.split_first_chunk() else {
            return Ok(None);
        };
        *account = Account::read(value).ok_or_else(|| unexpected(received))?;
        rest = behind;
    }
    match rest {
        b"\r\n" => Ok(Some(accounts)),
        b"" | b"\r" => Ok(None),
        _ => Err(unexpected(received)),
    }
}

fn unexpected(received: &[u8]) -> LabError {
    let said = received.escape_ascii();
    LabError::WrongAnswer(format!("a transaction was answered \"{said}\""))
}

/// Transactions that are prepared; they are played over and over.
pub struct Transfers {
    form: TransferForm,
    requests: Vec<u8>,
    each: Vec<Prepared>,
}

/// One of them, by where its requests lie.
struct Prepared {
    accounts: [usize; 2],
    begin: Range<usize>,
    commit: Range<usize>,
    /// Where the values are within the second trip's requests.
    values: [usize; 2],
}

/// What playing came to.
pub struct PlayedTransfers {
    /// Every attempt, of all connections.
    pub attempts: Vec<Attempt>,
    /// By the clock.
    pub seconds: f64,
}

impl Transfers {
    /// Transactions between these accounts: the keys at two positions each.
    #[must_use]
    pub fn new(form: TransferForm, keys: &Keys, pairs: &[[usize; 2]]) -> Self {
        let mut requests = Vec::new();
        let each = pairs.iter().map(|&accounts| {
            let of_both = accounts.map(|account| keys.get(account));
            let start = requests.len();
            form.begin(of_both, &mut requests);
            let middle = requests.len();
            let places = form.commit(of_both, &mut requests);
            Prepared {
                accounts,
                begin: start..middle,
                commit: middle..requests.len(),
                values: places.map(|place| place - middle),
            }
        });
        let each = each.collect();
        Self {
            form,
            requests,
            each,
        }
    }

    /// Plays them on so many connections, each with one transaction under way, for `duration`.
    /// Connections take the next one when theirs is committed. What has begun by then is ended.
    ///
    /// # Errors
    ///
    /// A connection that fails, or the first reply that is neither a commit nor a conflict.
    pub fn play(
        &self,
        address: SocketAddr,
        connections: usize,
        duration: Duration,
    ) -> Result<PlayedTransfers> {
        let clients = (0..connections).map(|_| Client::open(address));
        let mut clients = clients.collect::<Result<Vec<_>>>()?;
        let mut round = Round {
            transfers: self,
            next: 0,
            amounts: Random::new(connections as u64),
            is_over: false,
            attempts: Vec::with_capacity(1 << 16),
        };
        let start = Instant::now();
        // Once at least, however late this thread gets its turn.
        loop {
            clients
                .iter_mut()
                .try_for_each(|client| client.advance(&mut round))?;
            if start.elapsed() >= duration {
                break;
            }
        }
        round.is_over = true;
        // A transaction under way waits for two trips at most.
        for _ in 0..2 {
            clients
                .iter_mut()
                .try_for_each(|client| client.advance(&mut round))?;
        }
        Ok(PlayedTransfers {
            attempts: round.attempts,
            seconds: start.elapsed().as_secs_f64(),
        })
    }
}

/// What the connections of one playing share.
struct Round<'a> {
    transfers: &'a Transfers,
    /// The next transaction.
    next: usize,
    amounts: Random,
    /// Whether no transaction begins any more.
    is_over: bool,
    attempts: Vec<Attempt>,
}

impl Round<'_> {
    fn take_next(&mut self) -> usize {
        let nth = self.next;
        self.next = (nth + 1) % self.transfers.each.len();
        nth
    }
}

/// The trip whose reply a connection waits for.
enum Trip {
    /// The first of the transaction at this position.
    Begin(usize),
    /// The second.
    Commit(usize, Attempt),
}

/// One blocking connection.
struct Client {
    stream: Stream,
    trip: Option<Trip>,
    received: Vec<u8>,
    request: Vec<u8>,
}

impl Client {
    fn open(address: SocketAddr) -> Result<Self> {
        Ok(Self {
            stream: connect(&address.into())?,
            trip: None,
            received: Vec::new(),
            request: Vec::new(),
        })
    }

    /// Waits for what is under way, and sends what follows.
    fn advance(&mut self, round: &mut Round<'_>) -> Result<()> {
        let form = round.transfers.form;
        let nth = match self.trip.take() {
            Some(Trip::Begin(nth)) => {
                let read = self.receive(accounts_of)?;
                return self.commit(nth, read, round);
            }
            Some(Trip::Commit(nth, attempt)) => {
                let is_committed = self.receive(|received| form.outcome(received))?;
                round.attempts.push(Attempt {
                    is_committed,
                    ..attempt
                });
                (!is_committed).then_some(nth)
            }
            None => None,
        };
        if round.is_over {
            return Ok(());
        }
        let nth = nth.unwrap_or_else(|| round.take_next());
        let Transfers { requests, each, .. } = round.transfers;
        self.stream.write_all(&requests[each[nth].begin.clone()])?;
        self.trip = Some(Trip::Begin(nth));
        Ok(())
    }

    /// Sends the second trip of a transaction that read this.
    fn commit(&mut self, nth: usize, read: [Account; 2], round: &mut Round<'_>) -> Result<()> {
        let Transfers { requests, each, .. } = round.transfers;
        let prepared = &each[nth];
        let amount = 1 + round.amounts.below(MOST_MOVED);
        let attempt = Attempt {
            accounts: prepared.accounts,
            read,
            moved: amount.min(read[0].balance),
            is_committed: false,
        };
        self.request.clear();
        self.request
            .extend_from_slice(&requests[prepared.commit.clone()]);
        for (account, place) in attempt.written().iter().zip(prepared.values) {
            account.write(&mut self.request[place..place + VALUE_BYTES])?;
        }
        self.stream.write_all(&self.request)?;
        self.trip = Some(Trip::Commit(nth, attempt));
        Ok(())
    }

    /// Reads until `parse` finds a whole reply.
    fn receive<T>(&mut self, parse: impl Fn(&[u8]) -> Result<Option<T>>) -> Result<T> {
        self.received.clear();
        let mut bytes = [0; 1024];
        loop {
            let more = read_some(&mut self.stream, &mut bytes)?;
            self.received.extend_from_slice(&bytes[..more]);
            if let Some(parsed) = parse(&self.received)? {
                return Ok(parsed);
            }
            if more == 0 {
                return Err(unexpected(&self.received));
            }
        }
    }
}

/// Stores an account under every key.
///
/// # Errors
///
/// A connection that fails, or a refusal.
pub fn open_accounts(address: SocketAddr, keys: &Keys) -> Result<()> {
    let value = Account::OPENED.value()?;
    in_slices(address, keys, |account, request, reply| {
        resp_array(request, &[b"SET", keys.get(account), &value]);
        reply.extend_from_slice(b"+OK\r\n");
        Ok(())
    })
}

/// Compares what is stored under every key with these accounts.
///
/// # Errors
///
/// A connection that fails, or the first difference.
pub fn compare_accounts(address: SocketAddr, keys: &Keys, accounts: &[Account]) -> Result<()> {
    in_slices(address, keys, |account, request, reply| {
        resp_array(request, &[b"GET", keys.get(account)]);
        resp_bulk(reply, &accounts[account].value()?);
        Ok(())
    })
}

/// Plays what `append` makes of each account's position: a request and its reply.
fn in_slices(
    address: SocketAddr,
    keys: &Keys,
    mut append: impl FnMut(usize, &mut Vec<u8>, &mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    for from in (0..keys.len()).step_by(SLICE_ACCOUNTS) {
        let to = keys.len().min(from + SLICE_ACCOUNTS);
        let (mut script, mut appended) = (Script::default(), Ok(()));
        for begin in (from..to).step_by(UNTIMED_DEPTH) {
            let mut some = begin..to.min(begin + UNTIMED_DEPTH);
            script.push(some.len(), |request, reply| {
                appended = some.try_for_each(|account| append(account, request, reply));
            });
            std::mem::replace(&mut appended, Ok(()))?;
        }
        play_once(address, &script, UNTIMED_CONNECTIONS)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_the_same_once_it_was_stored() {
        let account = Account {
            balance: 1_000_007,
            version: 12,
        };
        let value = account.value().expect("it fits");
        assert_eq!(&value, b"000001000007000000000012");
        assert_eq!(Account::read(&value), Some(account));
        assert_eq!(Account::read(b"000001000007-00000000012"), None);
    }

    #[test]
    fn requests_are_those_of_the_form_and_values_have_their_place() {
        let keys: Keys = ["a", "bc"].iter().collect();
        for (form, begin, end) in [
            (TransferForm::Begin, "$12\r\nSERIALIZABLE\r\n", "COMMIT"),
            (TransferForm::Watch, "*3\r\n$5\r\nWATCH\r\n", "EXEC"),
        ] {
            let transfers = Transfers::new(form, &keys, &[[0, 1], [1, 0]]);
            for prepared in &transfers.each {
                let first = &transfers.requests[prepared.begin.clone()];
                let first = String::from_utf8_lossy(first).into_owned();
                assert!(first.contains(begin) && first.matches("GET").count() == 2);
                let second = &transfers.requests[prepared.commit.clone()];
                for place in prepared.values {
                    assert_eq!(&second[place..place + VALUE_BYTES], [b'0'; VALUE_BYTES]);
                    assert_eq!(second[place + VALUE_BYTES], b'\r');
                    assert!(second[..place].ends_with(b"$24\r\n"));
                }
                let second = String::from_utf8_lossy(second).into_owned();
                assert!(second.ends_with(&format!("{end}\r\n")), "{second}");
            }
        }
    }

    #[test]
    fn a_reply_is_awaited_to_its_end_and_anything_else_is_an_error() {
        let both = b"+OK\r\n$24\r\n000001000000000000000000\r\n\
                     $24\r\n000000999990000000000003\r\n";
        for end in 0..both.len() {
            assert_eq!(accounts_of(&both[..end]).expect("a part"), None);
        }
        let second = Account {
            balance: 999_990,
            version: 3,
        };
        let read = accounts_of(both).expect("whole");
        assert_eq!(read, Some([Account::OPENED, second]));
        assert!(accounts_of(b"+OK\r\n$-1\r\n$-1\r\n").is_err());
        assert!(accounts_of(b"-ERR unknown command\r\n").is_err());
        let outcomes: [(TransferForm, &[u8], bool); 4] = [
            (TransferForm::Begin, b"+OK\r\n+OK\r\n+OK\r\n", true),
            (TransferForm::Begin, b"+OK\r\n+OK\r\n-CONFLICT k\r\n", false),
            (
                TransferForm::Watch,
                b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n+OK\r\n",
                true,
            ),
            (
                TransferForm::Watch,
                b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*-1\r\n",
                false,
            ),
        ];
        for (form, reply, is_committed) in outcomes {
            for end in 0..reply.len() {
                assert_eq!(form.outcome(&reply[..end]).expect("a part"), None);
            }
            assert_eq!(form.outcome(reply).expect("whole"), Some(is_committed));
            assert!(form.outcome(b"+OK\r\n-ERR no\r\n").is_err());
        }
    }
}
