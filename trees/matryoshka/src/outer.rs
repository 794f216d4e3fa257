//! Inner nodes of the outer tree: up to 312 separators and 313 children in 4 KiB.
//!
//! Above the lines of separators lie a few lines of samples, the last separator of each line. A
//! search compares all samples, then one line: no branch depends on a key, and at most two cache
//! misses follow one another, where a binary search has five or more.

use hedgerow_simd::{Kernel, prefetch_line};

use crate::lane::Lane;
use crate::line::Line;

/// The most separators of a node.
pub(crate) const MOST_KEYS: usize = 312;

/// The most lines of separators, reached with 64-bit keys.
const LINES: usize = 39;
/// The most lines of samples.
const SAMPLES: usize = 5;

/// An inner node. Places without a separator hold the greatest integer.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Inner<L: Lane> {
    samples: [Line<L>; SAMPLES],
    lines: [Line<L>; LINES],
    children: [u32; MOST_KEYS + 1],
    count: u32,
}

impl<L: Lane> Inner<L> {
    const SAMPLE_LINES: usize = MOST_KEYS.div_ceil(L::LANES).div_ceil(L::LANES);

    /// A node of these separators and one child more.
    pub(crate) fn new(keys: &[L], children: &[u32]) -> Self {
        let padding = Line(L::PADDING);
        let mut node = Self {
            samples: [padding; SAMPLES],
            lines: [padding; LINES],
            children: [0; MOST_KEYS + 1],
            count: keys.len() as u32,
        };
        for (line, some) in node.lines.iter_mut().zip(keys.chunks(L::LANES)) {
            line.0.as_mut()[..some.len()].copy_from_slice(some);
        }
        // The last line needs no sample: what is above all others is in it.
        for (at, line) in keys.chunks(L::LANES).enumerate() {
            if (at + 1) * L::LANES < keys.len() {
                node.samples[at / L::LANES].0.as_mut()[at % L::LANES] = line[L::LANES - 1];
            }
        }
        node.children[..children.len()].copy_from_slice(children);
        node
    }

    /// Which child is responsible for `key`.
    #[inline(always)]
    pub(crate) fn route<N: Kernel>(&self, key: L) -> usize {
        let mut line = 0;
        for samples in &self.samples[..Self::SAMPLE_LINES] {
            line += L::below::<N>(&samples.0, key).count_ones() as usize;
        }
        let within = L::below::<N>(&self.lines[line].0, key).count_ones() as usize;
        line * L::LANES + within
    }

    #[inline(always)]
    pub(crate) fn child(&self, index: usize) -> u32 {
        self.children[index]
    }

    #[inline(always)]
    pub(crate) fn set_child(&mut self, index: usize, child: u32) {
        self.children[index] = child;
    }

    /// Separators.
    pub(crate) fn count(&self) -> usize {
        self.count as usize
    }

    pub(crate) fn keys(&self) -> Vec<L> {
        let lanes = self.lines.iter().flat_map(|line| line.0.as_ref());
        lanes.copied().take(self.count()).collect()
    }

    pub(crate) fn children(&self) -> &[u32] {
        &self.children[..=self.count()]
    }

    /// Asks for the lines that a search reads first.
    #[inline(always)]
    pub(crate) fn prefetch_samples(&self) {
        for line in &self.samples[..Self::SAMPLE_LINES] {
            prefetch_line(line);
        }
    }

    /// Whether samples are what they should be.
    pub(crate) fn verify_samples(&self) -> Result<(), String> {
        let fresh = Self::new(&self.keys(), self.children());
        let lanes = |node: &Self| -> Vec<L> {
            let lines = node.samples.iter().chain(&node.lines);
            lines.flat_map(|line| line.0.as_ref()).copied().collect()
        };
        if lanes(self) == lanes(&fresh) {
            Ok(())
        } else {
            Err("an inner node's samples do not match its separators".to_owned())
        }
    }
}
