//! Every structural invariant, checked on a tree at rest.

use std::collections::BTreeMap;

use crate::configuration::Configuration;
use crate::epochs::Epochs;
use crate::events::Event;
use crate::mapping_table::{Entries, NONE, NodeId, ROOT};
use crate::node::view::View;
use crate::node::{Kind, RecordRef};
use crate::tree::{BwTree, Guard, Node};

/// The nodes of one level: from low key to id, as the level above has them.
type Level = Vec<(Vec<u8>, NodeId)>;

impl<C: Configuration> BwTree<C> {
    /// Checks the tree and returns the first violation in words: order and bounds of keys, links,
    /// separators, attributes, and that each id is either in use once, retired or free. Meant for
    /// moments without writers.
    ///
    /// # Errors
    ///
    /// The first violation.
    pub fn verify(&self) -> Result<(), String> {
        let guard = self.epochs.pin();
        let root = self.node(ROOT, &guard);
        let mut expected: Level = vec![(Vec::new(), ROOT)];
        let mut seen = BTreeMap::new();
        for level in (0..=root.head.header().level).rev() {
            expected = self.verify_level(level, &expected, &mut seen, &guard)?;
        }
        self.verify_ids(seen.len())
    }

    /// Checks the nodes of a level, which are to be `expected`; returns their children.
    fn verify_level(
        &self,
        level: u8,
        expected: &Level,
        seen: &mut BTreeMap<NodeId, u8>,
        guard: &Guard<C>,
    ) -> Result<Level, String> {
        let mut children = Vec::new();
        for (index, (low, id)) in expected.iter().enumerate() {
            if let Some(other) = seen.insert(*id, level) {
                return Err(format!(
                    "node {id} is on level {other} and on level {level}"
                ));
            }
            let node = self.node(*id, guard);
            if node.id != *id {
                return Err(format!(
                    "node {id} of level {level} lies at {} now",
                    node.id
                ));
            }
            let next = expected.get(index + 1);
            self.verify_node(node, level, low, next)
                .map_err(|problem| format!("node {id} of level {level}: {problem}"))?;
            if level > 0 {
                let view = View::of(node.head, None);
                let items = view.items.iter();
                children.extend(items.map(|item| (item.key.to_vec(), item.value.child())));
            }
        }
        Ok(children)
    }

    fn verify_node(
        &self,
        node: Node<'_>,
        level: u8,
        low: &[u8],
        next: Option<&(Vec<u8>, NodeId)>,
    ) -> Result<(), String> {
        let head = node.head;
        let header = head.header();
        if matches!(header.kind, Kind::Remove | Kind::Abort) {
            return Err(format!("it has an unfinished {:?}", header.kind));
        }
        if header.level != level {
            return Err(format!("it says that it is on level {}", header.level));
        }
        if head.low() != low {
            return Err(format!(
                "its low key is {:?}, its separator {low:?}",
                head.low()
            ));
        }
        let (high, right) = match next {
            Some((key, id)) => (Some(key.as_slice()), *id),
            None => (None, NONE),
        };
        if head.high() != high || head.right() != right {
            return Err(format!(
                "it ends at {:?} before node {}, its parent's next separator is {high:?} of node \
                 {right}",
                head.high(),
                head.right()
            ));
        }
        verify_items(head)?;
        verify_depth(head)
    }

    /// Each id that was ever used is in the tree, or was retired and perhaps used again.
    fn verify_ids(&self, reachable: usize) -> Result<(), String> {
        if C::Entries::DIRECT {
            return Ok(());
        }
        let ever_used = self.table.ever_used();
        let waiting = self.counters.sum(Event::IdsRetired as usize);
        let again = self.table.recycled();
        let discarded = self.counters.sum(Event::IdsDiscarded as usize);
        let expected = ever_used as u64 + again - waiting - discarded;
        if expected == reachable as u64 {
            Ok(())
        } else {
            Err(format!(
                "{reachable} nodes are in the tree; of {ever_used} ids {waiting} were retired, \
                 {discarded} given back unused and {again} used again"
            ))
        }
    }
}

/// The items of a chain are in order, within its bounds, and as many as it says.
fn verify_items(head: RecordRef<'_>) -> Result<(), String> {
    let view = View::of(head, None);
    if view.items.len() != head.header().size as usize {
        let size = head.header().size;
        return Err(format!("it has {} items and says {size}", view.items.len()));
    }
    if view.items.is_empty() && head.header().level > 0 {
        return Err("an inner node has no child".to_owned());
    }
    let keys: Vec<Vec<u8>> = view.items.iter().map(|item| item.key.to_vec()).collect();
    if let Some(pair) = keys.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(format!("{:?} stands before {:?}", pair[0], pair[1]));
    }
    let low = head.low();
    let beyond = |key: &Vec<u8>| head.high().is_some_and(|high| key.as_slice() >= high);
    if let Some(key) = keys.iter().find(|key| key.as_slice() < low || beyond(key)) {
        return Err(format!("{key:?} is not between its low and high key"));
    }
    Ok(())
}

/// A chain is as long as it says.
fn verify_depth(head: RecordRef<'_>) -> Result<(), String> {
    let mut record = head;
    let mut depth = 0;
    while record.kind() != Kind::Base {
        depth += 1;
        record = record.next();
    }
    if depth == head.header().depth {
        Ok(())
    } else {
        Err(format!(
            "its chain has {depth} deltas and says {}",
            head.header().depth
        ))
    }
}
