//! What operations of the tree for one writer count for the form of a leaf (§5.1).

use super::BTree;
use crate::configuration::Configuration;
use crate::node::page::PageNumber;

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
