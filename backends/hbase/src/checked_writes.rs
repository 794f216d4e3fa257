//! Sending checked writes, and finding out what became of those whose answers are lost.

use std::time::{Duration, Instant};

use hedgerow::{Commit, Result};

use crate::at_once::at_once;
use crate::failure;
use crate::keyspace::{HbaseKeyspace, Replaced};
use crate::planted::{PlantedBug, planted};
use crate::retry::Repeat;
use crate::rows::Check;
use crate::stored_row::{self, CheckedWrite, FAMILY, HEADER, RowState};

/// Writes that are sent one behind the other on one connection.
const WRITTEN_TOGETHER: usize = 16;

/// Between attempts to read a row of which a write may have happened.
const PAUSE_IN_DOUBT: Duration = Duration::from_millis(50);

/// Time to read the rows of writes whose answers are lost since they were last sent, also where the
/// deadline of the writes is over by then: what such a read finds is worth more to clients than an
/// early end.
const READ_FOR: Duration = Duration::from_secs(2);

/// The deadlines of writes that are sent together.
#[derive(Clone, Copy)]
struct Deadlines {
    /// Of sending them, for the first time and again.
    sending: Instant,
    /// Of reading the rows of those whose answers are lost.
    reading: Instant,
}

impl HbaseKeyspace {
    /// Sends checked writes, each once. They are of different rows.
    fn send(
        &self,
        writes: &[(&[u8], &CheckedWrite)],
        deadline: Instant,
    ) -> Vec<crate::error::Result<bool>> {
        let checked: Vec<_> = writes
            .iter()
            .map(|(key, write)| {
                let check = match &write.expected {
                    Some(header) => Check::equals(key, FAMILY, HEADER, header),
                    None => Check::absent(key, FAMILY, HEADER),
                };
                (check, &write.mutations)
            })
            .collect();
        self.cluster.write_until(deadline, |calls| {
            calls.check_and_mutate_many(&self.table, &checked, Repeat::OnlyIfUnsent)
        })
    }

    /// Writes, if what is stored is still what was found.
    pub(crate) fn check_and_write(
        &self,
        key: &[u8],
        write: &CheckedWrite,
        deadline: Instant,
    ) -> Result<Replaced> {
        let written = self.check_and_write_all(&[(key, write)], deadline).pop();
        // One write has one outcome.
        written.unwrap_or(Ok(Replaced::Overtaken))
    }

    /// What became of a checked write that was sent once, after which it is sent again if need be.
    ///
    /// A read tells: the header that the write leaves behind says that it happened, also where the
    /// check did not hold, as a gateway may have sent it twice. The header that was found before
    /// says that it did not happen, so that it can be sent again: the first to arrive changes the
    /// header, and the other does nothing.
    fn finish(
        &self,
        key: &[u8],
        write: &CheckedWrite,
        mut sent: crate::error::Result<bool>,
        mut deadlines: Deadlines,
    ) -> Result<Replaced> {
        let commit = Commit {
            timestamp: write.version,
        };
        let mut may_have_happened = false;
        loop {
            match sent {
                Ok(true) => return Ok(Replaced::Done(commit)),
                Ok(false) => {}
                Err(error) if error.is_unknown() => match as_planted(&error, commit) {
                    Some(outcome) => return outcome,
                    None => may_have_happened = true,
                },
                Err(error) if !may_have_happened => return Err(failure::of(error)),
                // An earlier attempt may have happened.
                Err(_) => {}
            }
            let header = self.header_in_doubt(key, deadlines.reading)?;
            let is_compared = !planted(PlantedBug::HeaderNotCompared);
            if is_compared && header.as_ref() == Some(&write.header) {
                return Ok(Replaced::Done(commit));
            }
            let is_unchecked = may_have_happened && planted(PlantedBug::SentAgainUnchecked);
            if header != write.expected && !is_unchecked {
                return match may_have_happened && is_compared {
                    true => Err(failure::overtaken_in_doubt(key)),
                    false => Ok(Replaced::Overtaken),
                };
            }
            if Instant::now() >= deadlines.sending {
                return Err(failure::in_doubt(key));
            }
            std::thread::sleep(PAUSE_IN_DOUBT);
            // Its region may be away: others need connections, too.
            let permits = match self.away.until(key) {
                Some(_) => &self.cluster.away,
                None => &self.cluster.alone,
            };
            let Some(_permit) = permits.acquire(deadlines.sending) else {
                return Err(failure::in_doubt(key));
            };
            let again = match is_unchecked {
                true => self.send(&[(key, &over(header, write))], deadlines.sending),
                false => self.send(&[(key, write)], deadlines.sending),
            };
            sent = again.into_iter().next().unwrap_or(Ok(false));
            deadlines.reading = deadlines.reading.max(Instant::now() + READ_FOR);
        }
    }

    /// The header of a row of which a write may or may not have happened, once it can be read.
    fn header_in_doubt(&self, key: &[u8], deadline: Instant) -> Result<Option<Vec<u8>>> {
        while Instant::now() < deadline {
            match self.find_until(key, deadline) {
                Ok(found) => return Ok(found.header()),
                Err(_) => std::thread::sleep(PAUSE_IN_DOUBT),
            }
        }
        Err(failure::in_doubt(key))
    }

    /// Sends checked writes of different rows, several at once, and says what became of each. All
    /// of them have one deadline, that of their request. The reads of rows whose writes got no
    /// answer may take a little longer.
    pub(crate) fn check_and_write_all(
        &self,
        writes: &[(&[u8], &CheckedWrite)],
        deadline: Instant,
    ) -> Vec<Result<Replaced>> {
        let connections = self.cluster.connections();
        let chunks: Vec<_> = writes.chunks(WRITTEN_TOGETHER).collect();
        let sent = at_once(chunks.len(), connections, |nth| {
            self.send(chunks[nth], deadline)
        });
        let sent: Vec<crate::error::Result<bool>> = sent.into_iter().flatten().collect();
        let deadlines = Deadlines {
            sending: deadline,
            reading: deadline.max(Instant::now() + READ_FOR),
        };
        // Only these wait for HBase once more.
        let open = sent.iter().filter(|sent| is_open(sent)).count();
        at_once(writes.len(), open.min(connections), |nth| {
            let (key, write) = writes[nth];
            let sent = sent.get(nth).cloned().unwrap_or(Ok(false));
            self.finish(key, write, sent, deadlines)
        })
    }

    /// Takes a dead row away, if nobody wrote it since.
    pub(crate) fn purge(&self, key: &[u8], state: &RowState) -> bool {
        let check = Check::equals(key, FAMILY, HEADER, &state.header);
        let mutations = stored_row::purge(key, state.version);
        let purged = self.cluster.write(|calls| {
            calls.check_and_mutate_many(&self.table, &[(check, &mutations)], Repeat::OnlyIfUnsent)
        });
        matches!(purged[..], [Ok(true)])
    }
}

/// Whether the row must be read to know what became of a write that was sent.
fn is_open(sent: &crate::error::Result<bool>) -> bool {
    match sent {
        Ok(is_written) => !is_written,
        Err(error) => error.is_unknown(),
    }
}

/// What a planted bug makes of a lost answer, if one is selected.
fn as_planted(error: &crate::error::Error, commit: Commit) -> Option<Result<Replaced>> {
    if planted(PlantedBug::LostReplyTakenForSuccess) {
        return Some(Ok(Replaced::Done(commit)));
    }
    let why = || hedgerow::Error::Backend(error.to_string().into());
    planted(PlantedBug::LostReplyTakenForFailure).then(|| Err(why()))
}

/// The same write over another header.
fn over(header: Option<Vec<u8>>, write: &CheckedWrite) -> CheckedWrite {
    CheckedWrite {
        expected: header,
        ..write.clone()
    }
}
