//! What operations of the tree for one writer count for the form of a leaf (§5.1).

use super::BTree;
use crate::configuration::Configuration;
use crate::node::key::layer_root;
use crate::node::layout::Kind;
use crate::node::page::PageNumber;
use crate::node::slotted::Comparison;

impl<C: Configuration, const PAGE: usize> BTree<C, PAGE> {
    /// Counts a lookup, insertion or removal in a leaf.
    #[inline(always)]
    pub(super) fn count_point(&mut self, page: PageNumber) {
        if C::LEAVES.adaptive() && self.point_sampler.sample(C::THRESHOLDS.point_counts) {
            self.lower_counter(page);
        }
    }

    /// Counts a scan that visits a leaf. The processor predicts whether the leaf counts scans, so
    /// that is asked before the sampler.
    #[inline(always)]
    pub(super) fn count_scan(&mut self, page: PageNumber) {
        if C::LEAVES.adaptive()
            && self.pages.page(page).counts_scans::<C>()
            && self.scan_sampler.sample(C::THRESHOLDS.scan_counts)
        {
            self.raise_counter(page);
        }
    }

    /// Gives each leaf the form that suits its keys now; how many leaves there are. Splits and
    /// merges do so to theirs, but insertions and removals may replace all keys of a leaf without
    /// any (§5.1). Reads every page.
    pub fn adapt_to_keys(&mut self) -> usize {
        let (mut open, mut leaves) = (vec![self.root], 0);
        while let Some(page) = open.pop() {
            let image = self.pages.page(page);
            if image.is_inner() {
                let children = 0..=image.count();
                open.extend(children.map(|index| image.child::<Comparison<C>>(index)));
                continue;
            }
            leaves += 1;
            let records = image.all_taken::<C>().map(|at| image.leaf_record::<C>(at));
            let layers = records.filter(|record| record.kind == Kind::Layer);
            open.extend(layers.map(|record| layer_root(image.payload(record))));
            let image = self.pages.page_mut(page);
            image.adapt_to_keys::<C>(&mut self.conversions);
        }
        leaves
    }

    #[cold]
    fn lower_counter(&mut self, page: PageNumber) {
        let image = self.pages.page_mut(page);
        image.lower_counter::<C>(&mut self.conversions);
    }

    #[cold]
    fn raise_counter(&mut self, page: PageNumber) {
        let image = self.pages.page_mut(page);
        image.raise_counter::<C>(&mut self.conversions);
    }
}
