//! Which keys are lost with a page that cannot be read.
//!
//! An error names only the page. The node above the page knows which keys lead to it. So after a
//! failure the tree descends once more, with the fences of every page on the path, up to the page
//! that cannot be read.

use hedgerow_index::KeySpan;
use hedgerow_pages::{Pages, Pool, Result, Stop};

use super::BTreeIndex;
use super::descend::SearchTarget;
use crate::configuration::Configuration;
use crate::node::key::layer_root;
use crate::node::layout::Kind;
use crate::node::page::{Image, node};
use crate::node::slotted::Comparison;
use crate::restructure::NodeRef;

/// Attempts at a descent that writers interrupt.
const ATTEMPTS: u32 = 100;

/// The keys of the tree that begin with a prefix and whose rest is between two fences.
pub(crate) fn span(prefix: &[u8], lower: &[u8], upper: &[u8]) -> KeySpan {
    let from = [prefix, lower].concat();
    let to = if upper.is_empty() {
        after_all(prefix)
    } else {
        Some([prefix, upper].concat())
    };
    KeySpan { from, to }
}

/// The first key after all that begin with a prefix; none, if there is no such key.
pub(super) fn after_all(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut key = prefix[..=last].to_vec();
    key[last] += 1;
    Some(key)
}

/// The result of one step of the descent.
enum Step {
    /// The page below.
    To(NodeRef),
    /// The page below cannot be read.
    Lost(KeySpan),
    /// All pages on the path can be read.
    End,
}

impl<C: Configuration, const PAGE: usize> BTreeIndex<C, PAGE> {
    /// The keys behind the first page on a path that cannot be read; none, if all can be read now.
    /// The path leads to the layer whose keys begin with `base`, and in it where `target` says.
    #[cold]
    pub(super) fn lost_on(&self, base: &[u8], target: SearchTarget<'_>) -> Option<KeySpan> {
        let mut attempts = 0;
        while attempts < ATTEMPTS {
            match self.find_lost(base, target) {
                Ok(lost) => return lost,
                Err(Stop::Restart) => self.pause(&mut attempts),
                Err(Stop::Failed(_)) => return None,
            }
        }
        None
    }

    fn find_lost(&self, base: &[u8], target: SearchTarget<'_>) -> Result<Option<KeySpan>> {
        let mut at = match self.snapshot_root() {
            Ok(root) => root,
            Err(Stop::Restart) => return Err(Stop::Restart),
            Err(Stop::Failed(_)) => return Ok(Some(KeySpan::default())),
        };
        // What the keys of this layer leave out.
        let mut prefix = Vec::new();
        loop {
            let target = match (&base[prefix.len().min(base.len())..], target) {
                ([], SearchTarget::Key(key)) => {
                    SearchTarget::Key(&key[prefix.len() - base.len()..])
                }
                ([], target) => target,
                (rest, _) => SearchTarget::Key(rest),
            };
            match self.step_to_lost(&at, target, &mut prefix)? {
                Step::To(below) => at = below,
                Step::Lost(keys) => return Ok(Some(keys)),
                Step::End => return Ok(None),
            }
        }
    }

    /// Goes one page down; at the end of a layer `prefix` becomes that of the next.
    fn step_to_lost(
        &self,
        at: &NodeRef,
        target: SearchTarget<'_>,
        prefix: &mut Vec<u8>,
    ) -> Result<Step> {
        let pool: &Pool<PAGE> = &self.pool;
        let latch = self.latch_node(at)?;
        let page = node(latch.image());
        if let Some((child, index)) = target
            .in_layer(Self::KEY_PREFIX_BYTES)
            .child::<Comparison<C>>(pool.seen(&at.snapshot))?
        {
            let keys = Self::span_of_child(page, index, prefix);
            drop(latch);
            return Self::lost_or(self.snapshot_child(at, child), keys);
        }
        let SearchTarget::Key(key) = target else {
            return Ok(Step::End);
        };
        let cut = Self::cut(key);
        let Some(record) = page.find::<C>(cut.key_prefix) else {
            return Ok(Step::End);
        };
        let payload = page.payload(record);
        let whole_prefix = [prefix.as_slice(), cut.key_prefix].concat();
        match payload.kind {
            Kind::Inline => Ok(Step::End),
            Kind::Layer => {
                *prefix = whole_prefix;
                let keys = span(prefix, &[], &[]);
                Self::lost_or(self.snapshot_layer_root(layer_root(payload)), keys)
            }
            kind => {
                let keys = match kind {
                    Kind::Long => span(&whole_prefix, &[], &[]),
                    _ => span(&whole_prefix, &[], &[0]),
                };
                Ok(match self.load_chain(payload, usize::MAX) {
                    Err(Stop::Failed(_)) => Step::Lost(keys),
                    _ => Step::End,
                })
            }
        }
    }

    fn lost_or(snapshot: Result<NodeRef>, keys: KeySpan) -> Result<Step> {
        match snapshot {
            Ok(at) => Ok(Step::To(at)),
            Err(Stop::Restart) => Err(Stop::Restart),
            Err(Stop::Failed(_)) => Ok(Step::Lost(keys)),
        }
    }

    /// The keys that a child of an inner node covers.
    fn span_of_child(page: &Image<PAGE>, index: usize, prefix: &[u8]) -> KeySpan {
        let lower = match index.checked_sub(1) {
            Some(before) => page.upper_of_child::<C>(before),
            None => page.lower().to_vec(),
        };
        span(prefix, &lower, &page.upper_of_child::<C>(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_a_layer_end_with_its_prefix() {
        let all = span(b"", b"", b"");
        assert_eq!(all, KeySpan::default());
        let inner = span(b"base", b"a", b"b");
        assert_eq!(inner.to_string(), r#"keys from "basea" to before "baseb""#);
        let last = span(b"ste\xff\xff", b"x", b"");
        assert_eq!(
            (&last.from[..], last.to),
            (&b"ste\xff\xffx"[..], Some(b"stf".to_vec()))
        );
        assert_eq!(span(b"\xff", b"", b"").to, None);
    }
}
