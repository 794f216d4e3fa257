//! The root's separators as numbers, beside the tree, for descents.
//!
//! Every descent searches the root, and the root is where search by heads works worst: its range
//! has no bounds, so its keys leave no prefix out, and keys that all begin alike have equal heads.
//! A digest has of each separator the eight bytes behind what all separators begin with, in order,
//! and the child before it. A descent whose key begins in the same way compares its own eight bytes
//! with those; where they are equal to a separator's, or the key begins otherwise, the descent
//! searches the page.
//!
//! ```text
//!   shared  key:00000     stamp = version of the root + 1; 0 while the digest is written
//!           +-----------+-----------+-----+----------------+
//!   words   | 0124....  | 0317....  | ... | 9871....       |
//!   children| page 7    | page 12   | ... | page 40 | upper|
//!           +-----------+-----------+-----+----------------+
//! ```
//!
//! A digest is of one version of the root's page. A reader that has a version snapshot of the root
//! finds the version in the *stamp*, reads, and looks at the stamp again: so what it read belongs
//! to its snapshot, which it validates later as if it had read the page. Of the descents that find
//! the digest of another version, one in sixteen writes a new one.

use std::hint::select_unpredictable;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use hedgerow_pages::{Restart, View};
use hedgerow_sync::word::Word;

use crate::configuration::Configuration;
use crate::node::first_word::{first_word, first_word_from};
use crate::node::page::shared;
use crate::node::search::Node;
use crate::node::slotted::Comparison;

/// Separators that a digest has room for.
const MOST: usize = 512;
/// Words of what all separators begin with.
const SHARED_WORDS: usize = 4;
/// How often, of 2<sup>32</sup>, a descent that searched the root's page writes its digest.
pub(super) const WRITES: u32 = 1 << 28;

/// The digest itself: atomic words, 8 KiB of them.
pub(super) struct RootDigest<W: Word = AtomicU64> {
    /// The version of the root that this is of, plus one; 0 of none.
    stamp: W,
    /// How many separators there are, and how many bytes all of them begin with.
    counts: W,
    shared: [W; SHARED_WORDS],
    words: Box<[W]>,
    /// The children before the separators, and the one behind.
    children: Box<[W]>,
    writing: Mutex<()>,
}

/// What a digest is made of.
pub(super) struct Separators {
    shared: Vec<u8>,
    words: Vec<u64>,
    children: Vec<u32>,
}

impl Separators {
    /// Those of a root that is an inner node, if a digest has room for them.
    pub(super) fn of<C: Configuration>(root: impl View) -> Result<Option<Self>, Restart> {
        let count = root.records()?;
        // Without fences a root leaves nothing out.
        if !(1..=MOST).contains(&count) || root.prefix_bytes()? > 0 {
            return Ok(None);
        }
        let (mut first, mut key) = (Vec::new(), Vec::new());
        read_separator::<C>(root, 0, count, &mut first)?;
        read_separator::<C>(root, count - 1, count, &mut key)?;
        first.truncate(shared(&first, &key));
        first.truncate(SHARED_WORDS * 8);
        let mut words = Vec::with_capacity(count);
        for index in 0..count {
            words.push(word_behind::<C>(root, index, count, first.len(), &mut key)?);
        }
        let child = |index| root.child_at::<Comparison<C>>(index, count);
        let children = (0..=count).map(child).collect::<Result<_, _>>()?;
        Ok(Some(Self {
            shared: first,
            words,
            children,
        }))
    }
}

/// Reads a separator of a node that leaves no prefix out: its head, and the tail in the heap.
fn read_separator<C: Configuration>(
    root: impl View,
    index: usize,
    count: usize,
    key: &mut Vec<u8>,
) -> Result<(), Restart> {
    const WORD_BITS: usize = 64;
    let record = root.record::<Comparison<C>>(index, count)?;
    key.clear();
    if C::HEAD > 0 {
        let head = root.head::<Comparison<C>>(index)? << (WORD_BITS - 8 * C::HEAD);
        key.extend_from_slice(&head.to_be_bytes()[..record.key_len.min(C::HEAD)]);
    }
    root.append(record.tail_at..record.value_at, key)
}

/// The eight bytes of a separator behind its first `shared` ones, padded with zeros.
fn word_behind<C: Configuration>(
    root: impl View,
    index: usize,
    count: usize,
    shared: usize,
    key: &mut Vec<u8>,
) -> Result<u64, Restart> {
    const HEAD: usize = 4;
    if C::HEAD != HEAD {
        read_separator::<C>(root, index, count, key)?;
        return Ok(first_word(key.get(shared..).ok_or(Restart)?));
    }
    // Without a copy: digests are written often while a small tree grows.
    let record = root.record::<Comparison<C>>(index, count)?;
    let left = record.key_len.checked_sub(shared).ok_or(Restart)?;
    // Bytes that are the head's, or that the tail has before them.
    let (of_head, skipped) = (HEAD.saturating_sub(shared), shared.saturating_sub(HEAD));
    let tail = root.word_from(record.tail_at + skipped)?;
    let tail = match left.saturating_sub(of_head) {
        tail_len @ 0..8 => tail & !(u64::MAX >> (8 * tail_len)),
        _ => tail,
    };
    if of_head == 0 {
        return Ok(tail);
    }
    let head = root.head::<Comparison<C>>(index)? << 32 << (8 * shared);
    Ok(head | tail >> (8 * of_head))
}

impl<W: Word> RootDigest<W> {
    /// Of no version.
    pub(super) fn new() -> Self {
        Self::of_size(MOST)
    }

    /// With room for so many separators.
    fn of_size(most: usize) -> Self {
        let words = |count| (0..count).map(|_| W::new(0)).collect();
        Self {
            stamp: W::new(0),
            counts: W::new(0),
            shared: std::array::from_fn(|_| W::new(0)),
            words: words(most),
            children: words(most + 1),
            writing: Mutex::new(()),
        }
    }

    /// The child that covers a key, and its index, by the digest of this version of the root;
    /// `None` where the digest cannot tell.
    #[inline]
    pub(super) fn child(&self, version: u64, key: &[u8]) -> Option<(u32, usize)> {
        if self.stamp.load(Ordering::Acquire) != version + 1 {
            return None;
        }
        let found = self.search(key);
        W::fence(Ordering::Acquire);
        if self.stamp.load(Ordering::Relaxed) != version + 1 {
            return None;
        }
        found
    }

    /// The child by words that may be changing.
    #[inline(always)]
    fn search(&self, key: &[u8]) -> Option<(u32, usize)> {
        let relaxed = |word: &W| word.load(Ordering::Relaxed);
        let counts = relaxed(&self.counts);
        let (count, shared_bytes) = (counts as u32 as usize, (counts >> 32) as usize);
        if key.len() < shared_bytes || !self.is_shared(key, shared_bytes) {
            return None;
        }
        let word = first_word_from(key, shared_bytes);
        let words = self.words.get(..count)?;
        let mut left = words;
        while left.len() > 1 {
            let (low, high) = left.split_at(left.len() / 2);
            let is_below = low.last().is_some_and(|last| relaxed(last) < word);
            // Of one length, so that only where they begin depends on the key.
            left = select_unpredictable(is_below, high, &left[..high.len()]);
        }
        let (first, start) = (left.first()?, words.first()?);
        let skipped = (ptr::from_ref(first).addr() - ptr::from_ref(start).addr()) / size_of::<W>();
        let index = skipped + usize::from(relaxed(first) < word);
        if words.get(index).is_some_and(|other| relaxed(other) == word) {
            return None;
        }
        Some((relaxed(self.children.get(index)?) as u32, index))
    }

    /// Whether a key begins with the bytes that all separators begin with, of which it has no
    /// fewer.
    #[inline(always)]
    fn is_shared(&self, key: &[u8], shared_bytes: usize) -> bool {
        let mut left = shared_bytes;
        for (at, word) in (0..shared_bytes).step_by(8).zip(&self.shared) {
            let differs = first_word_from(key, at) ^ word.load(Ordering::Relaxed);
            // What the word has beyond the last of them is zero, and none of the key's business.
            if differs != 0 && (left >= 8 || differs >> (64 - 8 * left) != 0) {
                return false;
            }
            left = left.saturating_sub(8);
        }
        left == 0
    }

    /// Whether this is the digest of a version of the root.
    pub(super) fn is_of(&self, version: u64) -> bool {
        self.stamp.load(Ordering::Relaxed) == version + 1
    }

    /// Makes this the digest of a version of the root, unless it is, or another thread is writing
    /// one. `separators` are that version's, if it has some.
    pub(super) fn write(&self, version: u64, separators: impl FnOnce() -> Option<Separators>) {
        let Ok(_writing) = self.writing.try_lock() else {
            return;
        };
        if self.is_of(version) {
            return;
        }
        let Some(separators) = separators() else {
            return;
        };
        let put = |word: &W, value| word.store(value, Ordering::Relaxed);
        put(&self.stamp, 0);
        // A reader that sees any of what follows must see that there is no stamp.
        W::fence(Ordering::Release);
        let counts = separators.words.len() as u64 | (separators.shared.len() as u64) << 32;
        put(&self.counts, counts);
        for (word, chunk) in self.shared.iter().zip(separators.shared.chunks(8)) {
            put(word, first_word(chunk));
        }
        for (word, value) in self.words.iter().zip(&separators.words) {
            put(word, *value);
        }
        for (word, child) in self.children.iter().zip(&separators.children) {
            put(word, u64::from(*child));
        }
        self.stamp.store(version + 1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use hedgerow_modelled::Modelled;
    use hedgerow_pages::{Options, Pages, Pool};
    use hedgerow_vfs::{MemoryVfs, Vfs};
    use proptest::prelude::*;

    use super::*;
    use crate::BTreeIndex;
    use crate::configuration::Adaptive;
    use crate::tree::descend::SearchTarget;
    use crate::tree::image;

    fn separators(shared: &[u8], words: &[u64], first_child: u32) -> Separators {
        Separators {
            shared: shared.to_vec(),
            words: words.to_vec(),
            children: (first_child..).take(words.len() + 1).collect(),
        }
    }

    #[test]
    fn a_digest_tells_only_what_eight_bytes_can() {
        let digest = RootDigest::<AtomicU64>::new();
        assert_eq!(digest.child(0, b"key:5"), None);
        let words = [b"3", b"5", b"7"].map(|start| first_word(start));
        digest.write(4, || Some(separators(b"key:", &words, 100)));
        for (key, child) in [
            ("key:", Some((100, 0))),
            ("key:2999", Some((100, 0))),
            ("key:31", Some((101, 1))),
            ("key:6", Some((102, 2))),
            ("key:99999999999", Some((103, 3))),
            // As a separator, in eight bytes.
            ("key:5", None),
            ("key:5\0\0", None),
            // Begins otherwise.
            ("ke", None),
            ("kex:6", None),
            ("", None),
        ] {
            assert_eq!(digest.child(4, key.as_bytes()), child, "{key}");
            assert_eq!(digest.child(5, key.as_bytes()), None, "another version");
        }
    }

    /// What keys begin with; the last is longer than what a digest has room for.
    const STARTS: [&str; 4] = ["", "k", "user:00", "/a/path/longer/than/thirty-two/bytes/"];

    proptest! {
        /// Whatever the keys are, a digest leads where its page does.
        #[test]
        fn a_digest_leads_where_the_page_does(
            start in prop::sample::select(STARTS.to_vec()),
            keys in prop::collection::btree_set("[abc\\x00]{0,12}", 30..300),
            others in prop::collection::vec("[abc\\x00]{0,12}", 100),
        ) {
            const PAGE: usize = 1024;
            let vfs: Arc<dyn Vfs> = Arc::new(MemoryVfs::new());
            let pool = Pool::open(&vfs, Path::new("/pages"), &Options::new(8 << 20)).unwrap();
            let tree = BTreeIndex::<Adaptive, PAGE>::create(Arc::new(pool)).unwrap();
            let key = |rest: &String| format!("{start}{rest}").into_bytes();
            for rest in &keys {
                tree.insert(&key(rest), &[1; 60]).unwrap();
            }
            let pool: &Pool<PAGE> = tree.pool();
            let root = pool.exclusive(tree.root()).unwrap();
            prop_assume!(image(&root).is_inner());
            let made = Separators::of::<Adaptive>(image(&root)).unwrap().expect("there is room");
            let digest = RootDigest::<AtomicU64>::new();
            digest.write(1, || Some(made));
            let mut told = 0;
            for rest in keys.iter().chain(&others) {
                for key in [key(rest), rest.clone().into_bytes()] {
                    let cut = BTreeIndex::<Adaptive, PAGE>::cut(&key);
                    let target = SearchTarget::Key(cut.key_prefix);
                    let by_page = target.child::<Comparison<Adaptive>>(image(&root));
                    let by_page = by_page.unwrap().unwrap();
                    if let Some((child, index)) = digest.child(1, cut.key_prefix) {
                        prop_assert_eq!((child, index), (by_page.0.0, by_page.1));
                        told += 1;
                    }
                }
            }
            prop_assert!(told > 0);
        }
    }

    type Read = fn(&RootDigest<Modelled>, &[u8]) -> Option<(u32, usize)>;

    /// A reader while another thread writes the digest of the next version, by `read`: an answer
    /// is that of the reader's version.
    fn a_reader_beside_a_writer(read: Read) {
        shuttle::check_random(
            move || {
                let digest = Arc::new(RootDigest::<Modelled>::of_size(4));
                digest.write(1, || Some(separators(b"", &[10 << 56, 20 << 56], 100)));
                let writer = Arc::clone(&digest);
                let writer = shuttle::thread::spawn(move || {
                    let more = separators(b"", &[10 << 56, 12 << 56, 20 << 56], 200);
                    writer.write(2, || Some(more));
                });
                if let Some(found) = read(&digest, &[15]) {
                    assert_eq!(found, (101, 1));
                }
                writer.join().unwrap();
                assert_eq!(digest.child(2, &[15]), Some((202, 2)));
            },
            2000,
        );
    }

    #[test]
    fn a_digest_that_is_written_meanwhile_tells_nothing() {
        a_reader_beside_a_writer(|digest, key| digest.child(1, key));
    }

    #[test]
    #[should_panic(expected = "assertion")]
    fn without_a_second_look_at_the_stamp_versions_mix() {
        a_reader_beside_a_writer(|digest, key| {
            let is_of_version = digest.stamp.load(Ordering::Acquire) == 2;
            is_of_version.then(|| digest.search(key)).flatten()
        });
    }
}
