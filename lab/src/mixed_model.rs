//! What a map must answer to mixed steps: a model small and fast enough for every timed round.
//!
//! The keys of a round are known beforehand, so the model is two bits for each, at the key's
//! rank among all: whether it is there, and whether its value is the loaded one or one that a
//! step wrote. An ordered search is a search for the next bit, helped by a bit for each word
//! that has one, and so on upwards.

use hedgerow_lab_contender::{STEP_ADD, Step, Tally, value_of};
use hedgerow_lab_data::{Keys, Kind};

/// A set of small numbers that finds the next member quickly.
#[derive(Debug, Clone)]
struct Members {
    /// The bits; then a bit for each word of the level before that is not 0, up to one word.
    levels: Vec<Vec<u64>>,
}

impl Members {
    fn new(count: usize) -> Self {
        let mut levels = vec![vec![0; count.div_ceil(64).max(1)]];
        while let Some(words) = levels.last().map(Vec::len)
            && words > 1
        {
            levels.push(vec![0; words.div_ceil(64)]);
        }
        Self { levels }
    }

    fn contains(&self, member: usize) -> bool {
        self.levels[0][member / 64] >> (member % 64) & 1 == 1
    }

    fn insert(&mut self, member: usize) {
        let mut at = member;
        for level in &mut self.levels {
            level[at / 64] |= 1 << (at % 64);
            at /= 64;
        }
    }

    fn remove(&mut self, member: usize) {
        let mut at = member;
        for level in &mut self.levels {
            level[at / 64] &= !(1 << (at % 64));
            if level[at / 64] != 0 {
                break;
            }
            at /= 64;
        }
    }

    /// The first member from `from` on.
    fn next(&self, from: usize) -> Option<usize> {
        let mut at = from;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.get(at / 64)? & (u64::MAX << (at % 64));
            if word != 0 {
                let found = at / 64 * 64 + word.trailing_zeros() as usize;
                return Some(self.down(height, found));
            }
            // The word is done with: on from the next one, a level up.
            at = at / 64 + 1;
        }
        None
    }

    /// The first member under bit `at` of a level.
    fn down(&self, height: usize, mut at: usize) -> usize {
        for level in self.levels[..height].iter().rev() {
            at = at * 64 + level[at].trailing_zeros() as usize;
        }
        at
    }
}

/// The right content of a map over keys that are known beforehand.
#[derive(Debug, Clone)]
pub struct Model<'a> {
    keys: &'a Keys,
    /// The rank of each record among the sorted keys, and the record of each rank; none where
    /// order does not matter or records are in order as they are.
    ranks: Option<(Vec<u32>, Vec<u32>)>,
    present: Members,
    written: Vec<u64>,
    /// Whether what is written is forgotten, as sets do.
    keys_only: bool,
}

impl<'a> Model<'a> {
    /// An empty map; `ordered` where it will be asked to scan.
    ///
    /// # Panics
    ///
    /// If there are 2^32 keys.
    #[must_use]
    pub fn new(keys: &'a Keys, ordered: bool) -> Self {
        let count = u32::try_from(keys.len()).expect("fewer than 2^32 keys");
        let ranks = (ordered && !keys.iter().is_sorted()).then(|| {
            let mut records: Vec<u32> = (0..count).collect();
            records.sort_unstable_by_key(|record| keys.get(*record as usize));
            let mut ranks = vec![0; keys.len()];
            for (rank, record) in (0..).zip(&records) {
                ranks[*record as usize] = rank;
            }
            (ranks, records)
        });
        Self {
            keys,
            ranks,
            present: Members::new(keys.len()),
            written: vec![0; keys.len().div_ceil(64)],
            keys_only: false,
        }
    }

    /// The right content of a set.
    #[must_use]
    pub fn of_keys_only(self, keys_only: bool) -> Self {
        Self { keys_only, ..self }
    }

    fn rank(&self, record: usize) -> usize {
        let ranks = self.ranks.as_ref();
        ranks.map_or(record, |(ranks, _)| ranks[record] as usize)
    }

    fn value_at(&self, rank: usize) -> u64 {
        let records = self.ranks.as_ref();
        let record = records.map_or(rank, |(_, records)| records[rank] as usize);
        let written = self.written[rank / 64] >> (rank % 64) & 1;
        value_of(self.keys.get(record)).wrapping_add(written * STEP_ADD)
    }

    /// The value of a record, if it is there.
    #[must_use]
    pub fn get(&self, record: usize) -> Option<u64> {
        let rank = self.rank(record);
        self.present.contains(rank).then(|| self.value_at(rank))
    }

    /// Loads a record.
    pub fn load(&mut self, record: usize) {
        let rank = self.rank(record);
        self.present.insert(rank);
    }

    fn write(&mut self, record: usize) {
        let rank = self.rank(record);
        self.present.insert(rank);
        self.written[rank / 64] |= u64::from(!self.keys_only) << (rank % 64);
    }

    /// Takes a step and says what it adds to the tally.
    pub fn take(&mut self, record: usize, step: Step) -> Tally {
        let mut tally = Tally::default();
        match step.kind() {
            Kind::Read => tally.count(self.get(record)),
            Kind::Update | Kind::Insert => self.write(record),
            Kind::Remove => {
                let rank = self.rank(record);
                tally.hits += u64::from(self.present.contains(rank));
                self.present.remove(rank);
            }
            Kind::Scan => {
                let mut from = self.rank(record);
                for _ in 0..step.scan_length() {
                    let Some(rank) = self.present.next(from) else {
                        break;
                    };
                    tally.count(Some(self.value_at(rank)));
                    from = rank + 1;
                }
            }
            Kind::ReadModifyWrite => {
                tally.count(self.get(record));
                self.write(record);
            }
            Kind::ReadInsert | Kind::InsertIfAbsent => {
                let found = self.get(record);
                tally.count(found);
                if found.is_none() {
                    self.write(record);
                }
            }
        }
        tally
    }

    /// What lookups of every record tally.
    #[must_use]
    pub fn content(&self) -> Tally {
        let mut tally = Tally::default();
        for record in 0..self.keys.len() {
            tally.count(self.get(record));
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hedgerow_lab_contender::{Map, Steps};
    use hedgerow_lab_data::KeySet;
    use hedgerow_lab_data::random::Random;
    use hedgerow_lab_own::BTreeMark;

    #[test]
    fn the_model_answers_as_a_map_does() {
        for set in ["sparse-u64", "monotone-u32", "email"] {
            let set: KeySet = set.parse().expect("a key set");
            let keys = set.keys(5000).expect("keys");
            let (map, mut model) = (BTreeMark::default(), Model::new(&keys, true));
            map.put_run(keys.range(0..2000), 0);
            (0..2000).for_each(|record| model.load(record));
            let mut random = Random::new(3);
            for _ in 0..20_000 {
                let record = random.below(5000) as usize;
                // Removals weigh more, so that scans have gaps to leap.
                let kind = match random.below(11) {
                    8.. => Kind::Remove,
                    nth => Kind::ALL[nth as usize],
                };
                let length = random.below(70) as u32;
                let step = Step::new(kind, if kind == Kind::Scan { length } else { 0 });
                let one = keys.select([record]);
                let seen = map.mixed_run(&Steps::new(&one, &[step]));
                assert_eq!(seen, model.take(record, step), "{set} {kind:?} {record}");
            }
            assert_eq!(map.get_run(keys.all()), model.content());
        }
    }

    #[test]
    fn the_next_member_is_found_over_large_gaps() {
        let mut members = Members::new(300_000);
        assert_eq!(members.next(0), None);
        for member in [5, 70_000, 299_999] {
            members.insert(member);
        }
        assert_eq!(members.next(0), Some(5));
        assert_eq!(members.next(6), Some(70_000));
        assert_eq!(members.next(70_001), Some(299_999));
        members.remove(70_000);
        assert_eq!(members.next(6), Some(299_999));
        assert_eq!(members.next(300_000), None);
    }
}
