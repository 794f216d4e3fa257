//! Small, blind mutations of an input, for bounded runs without libFuzzer.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Longest input made.
const MAX_BYTES: usize = 16 << 10;

/// Numbers at which parsers stumble.
const EDGES: [u64; 8] = [
    0,
    1,
    0x7f,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    i64::MAX as u64,
    u64::MAX,
];

/// A seeded source of mutated inputs.
#[derive(Debug)]
pub struct Mutator {
    rng: StdRng,
    words: &'static [&'static str],
}

impl Mutator {
    /// The same seed gives the same inputs. The words are those of the input's language.
    pub fn new(seed: u64, words: &'static [&'static str]) -> Self {
        Mutator {
            rng: StdRng::seed_from_u64(seed),
            words,
        }
    }

    /// One input of `corpus` with a few changes, perhaps spliced with another.
    pub fn mutate(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.pick(corpus);
        for _ in 0..self.rng.random_range(1..=6) {
            self.change(&mut bytes, corpus);
        }
        bytes.truncate(MAX_BYTES);
        bytes
    }

    fn pick(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        if corpus.is_empty() {
            return Vec::new();
        }
        corpus[self.rng.random_range(0..corpus.len())].clone()
    }

    fn change(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let at = self.rng.random_range(0..=bytes.len());
        let end = self.rng.random_range(at..=bytes.len());
        let kinds = if self.words.is_empty() { 8 } else { 11 };
        match self.rng.random_range(0..kinds) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.insert(at, self.rng.random()),
            3 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            4 => {
                let other = self.pick(corpus);
                let from = self.rng.random_range(0..=other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            5 => {
                let edge = EDGES[self.rng.random_range(0..EDGES.len())].to_le_bytes();
                let width = [1, 2, 4, 8][self.rng.random_range(0..4)];
                let end = (at + width).min(bytes.len());
                bytes.splice(at..end, edge[..width].iter().copied());
            }
            6 => {
                // Numbers in text: lengths and counts of the protocols.
                let edge = EDGES[self.rng.random_range(0..EDGES.len())].to_string();
                bytes.splice(at..at, edge.into_bytes());
            }
            8.. => self.add_word(bytes, at),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << self.rng.random_range(0..8);
                }
            }
        }
    }

    /// Puts a word in: between words of a line, as a line of its own, or as an argument with its
    /// length.
    fn add_word(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let word = self.words[self.rng.random_range(0..self.words.len())];
        let behind = |ends: &[u8]| bytes[at..].iter().position(|byte| ends.contains(byte));
        let (ends, text): (&[u8], _) = match self.rng.random_range(0..4) {
            0 => (b"\n", format!("{word}\r\n")),
            1 => (b"\n", format!("${}\r\n{word}\r\n", word.len())),
            _ => (b" \n", format!("{word} ")),
        };
        let at = behind(ends).map_or(at, |place| at + place + 1);
        bytes.splice(at..at, text.into_bytes());
    }
}
