//! The flags of a meta command: a letter each, with an argument behind it.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::frame;
use super::outcome::Failure;
use super::request::{Words, expiry_ms, exptime, number};
use crate::shared::now_ms;

pub(super) const BAD_FORMAT: Failure = Failure::Line("CLIENT_ERROR bad command line format");
pub(super) const BAD_TOKEN: Failure =
    Failure::Line("CLIENT_ERROR bad token in command line format");
const INVALID_FLAG: Failure = Failure::Line("CLIENT_ERROR invalid flag");
const INVALID_DELTA: Failure = Failure::Line("CLIENT_ERROR invalid numeric delta value");
const INVALID_INITIAL: Failure = Failure::Line("CLIENT_ERROR invalid numeric initial value");
/// What is said of an opaque token that is longer.
pub(super) const OPAQUE_TOO_LONG: &str = "CLIENT_ERROR opaque token too long";
/// What is said of a key that flag `b` says to be base64, and that is not.
pub(super) const NOT_DECODED: &str = "CLIENT_ERROR error decoding key";

/// The flags that meta commands know, each what concerns it.
const KNOWN: &[u8] = b"bcfhklOqstuvxCDEFIJLMNPRT";
/// The longest opaque token, its letter included, as in memcached.
const MAX_OPAQUE_BYTES: usize = 32;

/// The flags of a request. Each stands once; its argument follows its letter.
pub(super) struct Flags<'a> {
    pub(super) words: Vec<&'a [u8]>,
    /// The letters of those that the reply can return.
    pub(super) returned: &'static [u8],
}

impl<'a> Flags<'a> {
    /// Takes the flags of one of memcached's commands from word `first` on.
    pub(super) fn parse(
        words: &Words<'a>,
        first: usize,
        returned: &'static [u8],
    ) -> Result<Flags<'a>, Failure> {
        Flags::parse_known(words, first, KNOWN, returned)
    }

    /// Takes the flags from word `first` on; `known` are the letters that the command knows.
    pub(super) fn parse_known(
        words: &Words<'a>,
        first: usize,
        known: &[u8],
        returned: &'static [u8],
    ) -> Result<Flags<'a>, Failure> {
        let words: Vec<&[u8]> = words.from(first).collect();
        let (mut seen, mut wrong, mut opaque) = (0u128, None, None);
        for word in &words {
            let letter = word[0];
            if !known.contains(&letter) {
                return Err(INVALID_FLAG);
            }
            let bit = 1u128 << (letter & 127);
            if seen & bit != 0 {
                return Err(Failure::Line("CLIENT_ERROR duplicate flag"));
            }
            seen |= bit;
            if letter == b'O' && word.len() > MAX_OPAQUE_BYTES {
                opaque = Some(Failure::Line(OPAQUE_TOO_LONG));
            }
            // The last is told, as in memcached, of client flags only if nothing else is wrong, and
            // of the opaque token behind these.
            match check_argument(letter, &word[1..]) {
                Ok(()) => {}
                Err(failure) if letter == b'F' => wrong = wrong.or(Some(failure)),
                Err(failure) => wrong = Some(failure),
            }
        }
        match wrong.or(opaque) {
            Some(failure) => Err(failure),
            None => Ok(Flags { words, returned }),
        }
    }

    pub(super) fn argument(&self, letter: u8) -> Option<&'a [u8]> {
        self.words
            .iter()
            .find(|word| word[0] == letter)
            .map(|word| &word[1..])
    }

    /// Returns the key whether asked or not.
    pub(super) fn imply_key(&mut self) {
        if !self.has(b'k') {
            self.words.insert(0, b"k");
        }
    }

    pub(super) fn has(&self, letter: u8) -> bool {
        self.argument(letter).is_some()
    }

    pub(super) fn number(&self, letter: u8) -> Result<Option<u64>, Failure> {
        self.argument(letter)
            .map(|word| number(word).ok_or(BAD_TOKEN))
            .transpose()
    }

    /// A time to live, as the moment of expiry; `None` without the flag.
    pub(super) fn expiry(&self, letter: u8) -> Result<Option<Option<u64>>, Failure> {
        let ttl = self
            .argument(letter)
            .map(|word| exptime(word).ok_or(BAD_TOKEN))
            .transpose()?;
        Ok(ttl.map(|ttl| expiry_ms(ttl, now_ms())))
    }

    /// The flags that set or read an item's expiry.
    pub(super) fn expiry_flags(&self) -> Result<ExpiryFlags, Failure> {
        let mut order = [0; EXPIRY_LETTERS.len()];
        let letters = self.words.iter().map(|word| word[0]);
        let letters = letters.filter(|letter| EXPIRY_LETTERS.contains(letter));
        order
            .iter_mut()
            .zip(letters)
            .for_each(|(place, letter)| *place = letter);
        Ok(ExpiryFlags {
            order,
            touch: self.expiry(b'T')?,
            vivify: self.expiry(b'N')?,
        })
    }
}

/// Checks the argument of a flag. As in memcached, a command looks at those of all flags that some
/// command knows, though it may ignore them.
fn check_argument(letter: u8, argument: &[u8]) -> Result<(), Failure> {
    let is_right = match letter {
        b'N' | b'R' | b'T' => exptime(argument).is_some(),
        b'C' | b'D' | b'E' | b'J' => number(argument).is_some(),
        b'F' => number(argument).is_some_and(|flags| u32::try_from(flags).is_ok()),
        _ => true,
    };
    match letter {
        _ if is_right => Ok(()),
        b'D' => Err(INVALID_DELTA),
        b'F' => Err(BAD_FORMAT),
        b'J' => Err(INVALID_INITIAL),
        _ => Err(BAD_TOKEN),
    }
}

/// The flags that set an item's expiry (`N` of one that is made, `T` of any) and read it.
const EXPIRY_LETTERS: &[u8; 4] = b"NRTt";

/// What a request does to the expiry of its item. As in memcached, each flag finds what those
/// before it made of it: `t T30` returns the old time to live, `T30 t` the new one.
#[derive(Clone, Copy, Default)]
pub(super) struct ExpiryFlags {
    /// The letters that the request has, in its order; zeros fill the rest.
    order: [u8; EXPIRY_LETTERS.len()],
    touch: Option<Option<u64>>,
    vivify: Option<Option<u64>>,
}

impl ExpiryFlags {
    /// Whether an item that is there gets an expiry.
    pub(super) fn touches(&self) -> bool {
        self.touch.is_some()
    }

    /// Whether an item that is missing is made.
    pub(super) fn makes(&self) -> bool {
        self.vivify.is_some()
    }

    /// What the flag `letter` finds as the expiry of an item that is there and had this one.
    pub(super) fn found_by(&self, letter: u8, expiry_ms: Option<u64>) -> Option<u64> {
        self.walk(Some(letter), expiry_ms, None)
    }

    /// The expiry that such an item has in the end.
    pub(super) fn of_present(&self, expiry_ms: Option<u64>) -> Option<u64> {
        self.walk(None, expiry_ms, None)
    }

    /// What the flag `letter` finds as the expiry of an item that the request makes.
    pub(super) fn found_in_made(&self, letter: u8) -> Option<u64> {
        self.walk(Some(letter), None, self.vivify)
    }

    /// The expiry that such an item has in the end.
    pub(super) fn of_made(&self) -> Option<u64> {
        self.walk(None, None, self.vivify)
    }

    /// Follows the flags up to `end`, or all of them.
    fn walk(
        &self,
        end: Option<u8>,
        expiry_ms: Option<u64>,
        vivify: Option<Option<u64>>,
    ) -> Option<u64> {
        let before = self.order.iter().take_while(|letter| Some(**letter) != end);
        before.fold(expiry_ms, |expiry_ms, letter| match letter {
            b'T' => self.touch.unwrap_or(expiry_ms),
            b'N' => vivify.unwrap_or(expiry_ms),
            _ => expiry_ms,
        })
    }
}

/// The key of a request, decoded. As in memcached, the limit on a key's length is one on the word.
pub(super) fn key<'a>(word: Option<&'a [u8]>, flags: &Flags<'_>) -> Result<Cow<'a, [u8]>, Failure> {
    let word = word
        .filter(|word| frame::valid_key(word))
        .ok_or(BAD_FORMAT)?;
    decode(word, flags)
}

/// A word that stands for a key: what it encodes, if the request has flag `b`.
pub(super) fn decode<'a>(word: &'a [u8], flags: &Flags<'_>) -> Result<Cow<'a, [u8]>, Failure> {
    if !flags.has(b'b') {
        return Ok(word.into());
    }
    STANDARD
        .decode(word)
        .map(Into::into)
        .map_err(|_| Failure::Line(NOT_DECODED))
}
