//! What a script asked of a database and what was acknowledged: the judge of what is left.

use std::collections::BTreeMap;
use std::fmt;

use hedgerow::{Db, Error};

use super::campaign::FaultCampaign;

/// What was asked of each key and acknowledged.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    pub(super) keys: BTreeMap<Vec<u8>, KeyFacts>,
    /// Pairs of keys that only batches wrote, both the same value.
    pub(super) pairs: Vec<(Vec<u8>, Vec<u8>)>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct KeyFacts {
    /// States asked for, oldest first.
    pub(super) issued: Vec<Option<Vec<u8>>>,
    /// How many of them a durable acknowledgement of the last covers.
    durable: usize,
}

impl KeyFacts {
    pub(super) fn allows(&self, found: Option<&Vec<u8>>) -> bool {
        let from = self.durable.saturating_sub(1);
        let never_written = self.durable == 0 && found.is_none();
        never_written
            || self.issued[from..]
                .iter()
                .any(|state| state.as_ref() == found)
    }
}

impl Facts {
    pub(super) fn issue(&mut self, key: &[u8], state: Option<&[u8]>) {
        self.keys
            .entry(key.to_vec())
            .or_default()
            .issued
            .push(state.map(<[u8]>::to_vec));
    }

    /// The last state asked for under `key` was acknowledged as durable.
    pub(super) fn acknowledge(&mut self, key: &[u8]) {
        let facts = self.keys.get_mut(key).expect("issued before");
        facts.durable = facts.issued.len();
    }

    /// Everything accepted so far is durable (a clean close).
    pub(super) fn acknowledge_all(&mut self, accepted: &BTreeMap<Vec<u8>, usize>) {
        for (key, facts) in &mut self.keys {
            let accepted = accepted.get(key).copied().unwrap_or(0);
            facts.durable = facts.durable.max(accepted);
        }
    }

    pub(super) fn check(
        &self,
        campaign: &FaultCampaign,
        db: hedgerow::Result<Db>,
    ) -> Result<(), String> {
        let db = db.map_err(|error| format!("opening: {error}"))?;
        let wrong = |error: Error| error.to_string();
        let mut found = BTreeMap::new();
        for (key, facts) in &self.keys {
            let keyspace = campaign.keyspace_of(&db, key).map_err(wrong)?;
            let value = keyspace.get(key).map_err(wrong)?;
            if !facts.allows(value.as_ref()) {
                return Err(format!(
                    "{} holds {}, but {} states were asked for and number {} was acknowledged",
                    Text(key),
                    value
                        .as_ref()
                        .map_or("nothing".to_owned(), |value| Text(value).to_string()),
                    facts.issued.len(),
                    facts.durable
                ));
            }
            found.insert(key, value);
        }
        for (a, b) in &self.pairs {
            if found.get(a) != found.get(b) {
                return Err(format!("half a batch: {} and {} differ", Text(a), Text(b)));
            }
        }
        db.close().map_err(|error| format!("closing: {error}"))
    }
}

/// The beginning of a key or value, for messages.
pub(super) struct Text<'a>(pub(super) &'a [u8]);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?}",
            String::from_utf8_lossy(&self.0[..self.0.len().min(24)])
        )
    }
}
