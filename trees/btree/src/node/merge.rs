//! How nodes merge (§2).
//!
//! Two neighbours become one when three quarters of each are unused, or when one holds nothing
//! and the other can take its range.

use crate::configuration::Configuration;
use crate::node::adapt::Conversions;
use crate::node::edit::Edit;
use crate::node::layout::{Kind, Payload};
use crate::node::page::PageNumber;
use crate::node::page::{Image, Tag};
use crate::node::plan::{Content, Plan};
use crate::node::slotted::Comparison;
use crate::node::split::child_bytes;

impl<const PAGE: usize> Image<PAGE> {
    /// Whether a removal left a node so empty that it may merge with a neighbour.
    pub(crate) fn sparse<C: Configuration>(&self) -> bool {
        let (free, whole) = self.node_free::<C>();
        4 * free >= 3 * whole || self.count() == 0
    }

    /// Whether there is reason to merge with the node to the right.
    pub(crate) fn may_merge<C: Configuration>(&self, right: &Self) -> bool {
        let empty = |image: &Self| !image.is_inner() && image.count() == 0;
        (self.sparse::<C>() && right.sparse::<C>()) || empty(self) || empty(right)
    }

    /// Takes out the child `index + 1`, whose range the child `index` has got, and returns it.
    pub(crate) fn remove_child<C: Configuration>(&mut self, index: usize) -> PageNumber {
        let left = self.child::<Comparison<C>>(index);
        let right = self.child::<Comparison<C>>(index + 1);
        self.remove::<Comparison<C>>(index);
        self.set_child::<Comparison<C>>(index, left);
        right
    }

    /// One node of this, the child `index` of `above`, and that to the right, both in order, if
    /// they fit.
    pub(crate) fn merged<C: Configuration>(
        &self,
        above: &Self,
        index: usize,
        right: &Self,
        conversions: &mut Conversions,
    ) -> Option<Self> {
        if self.is_inner() {
            let mut separator = Vec::new();
            above.node_key::<C>(index, &mut separator);
            return merge_inner::<C, PAGE>(self, &separator, right);
        }
        let parts = [
            (self, 0..self.all_places::<C>()),
            (right, 0..right.all_places::<C>()),
        ];
        let content = Content {
            lower: self.lower(),
            upper: right.upper(),
            parts: &parts,
        };
        let main = if self.count() > 0 { self } else { right };
        let stays_dense = [self, right]
            .iter()
            .all(|image| image.count() == 0 || image.is_dense());
        let dense = stays_dense.then(|| content.dense::<C>()).flatten();
        let plan: Plan = dense.or_else(|| content.slotted_that_fits::<C>(main.counter()))?;
        conversions.by_keys(main.form::<C>(), plan.form.form());
        let mut image = Image::zeroed();
        content.build::<C>(plan, &mut image);
        Some(image)
    }
}

/// One inner node of two and the separator between them, if they fit.
fn merge_inner<C: Configuration, const PAGE: usize>(
    left: &Image<PAGE>,
    separator: &[u8],
    right: &Image<PAGE>,
) -> Option<Image<PAGE>> {
    let mut image = Image::<PAGE>::zeroed();
    image.reset(Tag::Inner, left.lower(), right.upper(), C::PREFIX);
    let prefix = image.prefix_len();
    let bytes = |image: &Image<PAGE>| -> usize {
        let grown = image.prefix_len() - prefix;
        let sizes = (0..image.count())
            .map(|index| child_bytes::<C>(image.leaf_record::<C>(index).key_len + grown));
        sizes.sum()
    };
    let need = bytes(left) + bytes(right) + child_bytes::<C>(separator.len() - prefix);
    if need > image.free::<Comparison<C>>() {
        return None;
    }
    image.append::<Comparison<C>, Comparison<C>>(left, 0..left.count());
    let child = (left.upper_child() as PageNumber).to_le_bytes();
    let payload = Payload {
        kind: Kind::Inline,
        bytes: &child,
    };
    let done = image.insert::<Comparison<C>>(image.count(), &separator[prefix..], payload);
    assert!(done, "counted above");
    image.append::<Comparison<C>, Comparison<C>>(right, 0..right.count());
    image.set_upper_child(right.upper_child());
    Some(image)
}
