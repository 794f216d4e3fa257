//! Every page of a tree damaged in turn: errors say which keys need it, and exactly those fail.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use hedgerow_btree::BTreeIndex;
use hedgerow_index::{Direction, Index, IndexError, IndexErrorKind, IndexExt, KeySpan, ValuePart};
use hedgerow_pages::{Options, PageId, Pool};
use hedgerow_vfs::{MemoryVfs, Vfs};

const FILE: &str = "/pages";
const PAGE: usize = 4096;

type Tree = BTreeIndex;

fn rows() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rows = BTreeMap::new();
    for n in 0..1_500_u32 {
        let key = format!("{:08x}", n.wrapping_mul(0x9e37_79b9)).into_bytes();
        // Some values in pages of their own.
        let len = if n.is_multiple_of(300) { 9_000 } else { 150 };
        rows.insert(key, vec![n as u8; len]);
    }
    // Keys that have their key prefixes in common, twice over; and one that is alone.
    for n in 0..60_u32 {
        let mut key = vec![b'5'; 1_200];
        key.extend_from_slice(&n.to_be_bytes());
        rows.insert(key, vec![n as u8; 100]);
        rows.insert([&[b'9'; 700][..], &n.to_be_bytes()].concat(), vec![7; 300]);
    }
    rows.insert(vec![b'7'; 3_000], b"alone".to_vec());
    // Values side by side that share pages, of which a scan reads several at once.
    for n in 0..24_u8 {
        rows.insert(vec![b'b', n], vec![n; 1_030]);
    }
    rows
}

fn pool(vfs: &Arc<dyn Vfs>) -> Option<Arc<Pool<PAGE>>> {
    let pool = Pool::open(vfs, Path::new(FILE), &Options::new(8 << 20));
    pool.ok().map(Arc::new)
}

fn span(error: &IndexError) -> KeySpan {
    assert_eq!(error.kind(), IndexErrorKind::Damaged, "{error}");
    let keys = error.keys().unwrap_or_else(|| panic!("no keys: {error}"));
    let said = error.to_string();
    assert!(said.contains(&keys.to_string()), "{said}");
    assert!(said.contains(FILE) && said.contains("page ") && said.contains("backup"));
    keys.clone()
}

fn holds(span: &KeySpan, key: &[u8]) -> bool {
    key >= &span.from && span.to.as_ref().is_none_or(|to| key < to)
}

/// Where a scan of a direction fails, and how many rows it saw before.
fn scan(tree: &Tree, direction: Direction) -> (usize, Option<KeySpan>) {
    let mut seen = 0;
    let done = IndexExt::scan_from(tree, Bound::Unbounded, direction, |_, _| {
        seen += 1;
        ControlFlow::Continue(())
    });
    (seen, done.err().map(|error| span(&error)))
}

/// How many rows are lost with a tree that has one damaged page.
fn check(tree: &Tree, rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> usize {
    let mut spans: Vec<KeySpan> = Vec::new();
    let mut lost = Vec::new();
    for (key, value) in rows {
        match IndexExt::read(tree, key, ValuePart::Whole, <[u8]>::to_vec) {
            Ok(found) => assert_eq!(found.as_ref(), Some(value)),
            Err(error) => {
                let span = span(&error);
                assert!(holds(&span, key), "{error}");
                if !spans.contains(&span) {
                    spans.push(span);
                }
                lost.push(key);
            }
        }
    }
    let (forward, first) = scan(tree, Direction::Forward);
    let (back, last) = scan(tree, Direction::Reverse);
    let (Some(span), Some(end)) = (spans.first(), spans.last()) else {
        assert_eq!((first, last), (None, None));
        assert_eq!((forward, back), (rows.len(), rows.len()));
        tree.verify().unwrap();
        return 0;
    };
    // Only a page that values share is one of several spans: each is of one key.
    assert!(spans.len() == 1 || spans.len() == lost.len(), "{spans:?}");
    let is_held = |key: &&Vec<u8>| spans.iter().any(|span| holds(span, key));
    let held: Vec<_> = rows.keys().filter(is_held).collect();
    assert_eq!(held, lost, "{spans:?}");
    assert_eq!((first.as_ref(), last.as_ref()), (Some(span), Some(end)));
    let kept = |key: &&Vec<u8>| !lost.contains(key);
    assert_eq!(forward, rows.keys().take_while(kept).count());
    assert_eq!(back, rows.keys().rev().take_while(kept).count());
    let part = ValuePart::Whole;
    let update = Index::update(tree, lost[0], part, &mut Vec::new(), &mut |_, _| {
        hedgerow_index::Decision::Remove(())
    });
    assert_eq!(self::span(&update.unwrap_err()), *span);
    let said = tree.verify().unwrap_err();
    assert!(said.contains("; key"), "{said}");
    lost.len()
}

#[test]
fn an_error_names_the_keys_that_need_the_page() {
    let rows = rows();
    let disk = MemoryVfs::new();
    let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let first = pool(&vfs).unwrap();
    let tree = Tree::create(Arc::clone(&first)).unwrap();
    for (key, value) in &rows {
        tree.insert(key, value).unwrap();
    }
    let (root, len): (PageId, u64) = (tree.root(), tree.len());
    first.checkpoint(Vec::new).unwrap();
    drop((tree, first));
    let files = disk.files();
    let (_, bytes) = files
        .iter()
        .find(|(path, _)| path == Path::new(FILE))
        .unwrap();
    let (mut losses, mut all) = (0, 0);
    for block in 2..bytes.len() / PAGE {
        let mut damaged = bytes.clone();
        damaged[block * PAGE + 77] ^= 4;
        disk.insert_file(Path::new(FILE), damaged);
        // Damage of the page table is another matter.
        let Some(pool) = pool(&vfs) else { continue };
        let lost = check(&Tree::open(pool, root, len), &rows);
        losses += usize::from(lost > 0);
        all += usize::from(lost == rows.len());
    }
    assert!(losses > 60, "{losses}");
    assert_eq!(all, 1, "the root");
}
