//! The steps that histories are made of, and how random ones come about: few keys, so that they
//! meet, with some that are long or share long prefixes.

use std::ops::Bound;

use hedgerow::IndexKind;
use hedgerow_testkit::databases::key_of;
use proptest::collection::vec;
use proptest::prelude::*;

use super::rows::Key;

/// A change of one key, possible alone, in a batch and in a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Put(Vec<u8>),
    PutWith(Vec<u8>, Option<u64>, u32),
    PutColumns(Vec<(Vec<u8>, Vec<u8>)>),
    Remove,
}

/// A change that depends on the row; not possible in a batch.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Append(Vec<u8>),
    SetColumn(Vec<u8>, Vec<u8>),
    RemoveColumn(Vec<u8>),
    Expire(Option<u64>),
    SetAll(Vec<u8>, Option<u64>, u32),
    Keep,
    RemoveIfPlain,
}

pub(crate) type Bounds = (Bound<Key>, Bound<Key>);

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Change(usize, Key, Change),
    Edit(usize, Key, Edit),
    RemoveColumns(usize, Key, Vec<Vec<u8>>),
    CompareAndSwap(usize, Key, bool, Vec<u8>),
    Persist(usize, Key),
    DeleteRange(usize, Bounds),
    Batch(Vec<(usize, Key, Change)>),
    Transact {
        all: bool,
        changes: Vec<(usize, Key, Change)>,
        then: End,
    },
    Iterate(usize, Bounds, Vec<bool>),
    GetMany(usize, Vec<Key>),
    Clear(usize),
    Advance(u64),
    Sweep,
    Checkpoint,
    Reopen {
        workers: usize,
        read_only_first: bool,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Commit,
    RollBack,
    Fail,
}

/// Names of keys, and bounds.
fn name() -> impl Strategy<Value = Key> {
    prop_oneof![
        4 => vec(prop::sample::select(vec![0u8, b'a', 255]), 0..3),
        2 => (8u32..13).prop_map(|n| n.to_string().into_bytes()),
        1 => (0usize..4).prop_map(|n| [vec![b'p'; 24], vec![b'q'; n]].concat()),
        1 => (0u8..3).prop_map(|n| vec![n; 300]),
        1 => (0u8..4).prop_map(|n| [vec![b'l'; 320], vec![n; n.into()]].concat()),
    ]
}

/// Keys that rows can have.
fn key(index: IndexKind) -> impl Strategy<Value = Key> {
    name().prop_map(move |name| key_of(Some(index), name))
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![8 => vec(any::<u8>(), 0..20), 1 => (200usize..3000).prop_map(|n| vec![7; n])]
}

fn expiry() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![Just(None), (1000u64..1400).prop_map(Some)]
}

fn column() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(vec![&b""[..], b"a", b"b", b"name", b"other"]).prop_map(<[u8]>::to_vec)
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => value().prop_map(Change::Put),
        2 => (value(), expiry(), 0u32..3).prop_map(|(v, e, f)| Change::PutWith(v, e, f)),
        3 => vec((column(), value()), 0..4).prop_map(Change::PutColumns),
        2 => Just(Change::Remove),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        value().prop_map(Edit::Append),
        (column(), value()).prop_map(|(name, value)| Edit::SetColumn(name, value)),
        column().prop_map(Edit::RemoveColumn),
        expiry().prop_map(Edit::Expire),
        (column(), expiry(), 0u32..2).prop_map(|(name, e, flags)| Edit::SetAll(name, e, flags)),
        Just(Edit::Keep),
        Just(Edit::RemoveIfPlain),
    ]
}

/// Bounds of any width, whatever the keys have.
fn bound(index: IndexKind) -> impl Strategy<Value = Bound<Key>> {
    let bytes = || prop_oneof![name(), key(index)];
    prop_oneof![
        Just(Bound::Unbounded),
        bytes().prop_map(Bound::Included),
        bytes().prop_map(Bound::Excluded)
    ]
}

pub(crate) fn step(index: IndexKind) -> impl Strategy<Value = Step> {
    let (key, bound) = (|| key(index), || bound(index));
    let asked = prop_oneof![name(), key()];
    let changes = || vec((0usize..2, key(), change()), 0..6);
    let end = prop::sample::select(vec![End::Commit, End::Commit, End::RollBack, End::Fail]);
    prop_oneof![
        20 => (0usize..2, key(), change()).prop_map(|(k, key, c)| Step::Change(k, key, c)),
        8 => (0usize..2, key(), edit()).prop_map(|(k, key, e)| Step::Edit(k, key, e)),
        2 => (0usize..2, key(), vec(column(), 0..3))
            .prop_map(|(k, key, names)| Step::RemoveColumns(k, key, names)),
        3 => (0usize..2, key(), any::<bool>(), value())
            .prop_map(|(k, key, right, value)| Step::CompareAndSwap(k, key, right, value)),
        1 => (0usize..2, key()).prop_map(|(k, key)| Step::Persist(k, key)),
        1 => (0usize..2, (bound(), bound())).prop_map(|(k, b)| Step::DeleteRange(k, b)),
        4 => changes().prop_map(Step::Batch),
        4 => (any::<bool>(), changes(), end)
            .prop_map(|(all, changes, then)| Step::Transact { all, changes, then }),
        6 => (0usize..2, (bound(), bound()), vec(any::<bool>(), 0..8))
            .prop_map(|(k, b, ends)| Step::Iterate(k, b, ends)),
        2 => (0usize..2, vec(asked, 0..8)).prop_map(|(k, keys)| Step::GetMany(k, keys)),
        1 => (0usize..2).prop_map(Step::Clear),
        2 => (0u64..50).prop_map(Step::Advance),
        1 => Just(Step::Sweep),
        1 => Just(Step::Checkpoint),
        2 => (1usize..4, any::<bool>())
            .prop_map(|(workers, read_only_first)| Step::Reopen { workers, read_only_first }),
    ]
}
