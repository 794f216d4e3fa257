//! Ascending separators in lines, with a few lines of samples above: which child has a key?
//!
//! Separator `i` is at or above every key of child `i` and below every key of child `i + 1`.
//! Places without a separator hold the greatest integer, which is below no key, so that a search
//! needs no count. Sample `j` is the last place of line `j`: as many samples are below the key as
//! whole lines are. Lines hold keys with [flipped signs](hedgerow_simd::flip_sign), for the search.

use std::marker::PhantomData;

use hedgerow_simd::Kernel;

use super::node_key::{Router, SharedNodeKey, line_of};
use super::words::Words;

/// Room for as many separators as `LINES` lines have lanes; `SAMPLES` lines hold a sample of each
/// line but the last.
#[derive(Debug)]
#[repr(C)]
pub struct Routing<L, const SAMPLES: usize, const LINES: usize> {
    samples: [Words; SAMPLES],
    lines: [Words; LINES],
    keys: PhantomData<L>,
}

impl<L: SharedNodeKey, const SAMPLES: usize, const LINES: usize> Router<L>
    for Routing<L, SAMPLES, LINES>
{
    const SAMPLE_LINES: usize = SAMPLES;
    const ROOM: usize = LINES * L::LANES;

    fn new(separators: impl IntoIterator<Item = L>) -> Self {
        const { assert!(SAMPLES * L::LANES >= LINES - 1) };
        let none = || {
            let mut lanes = L::PADDING;
            lanes.as_mut().fill(L::MAX.flipped());
            line_of::<L>(&lanes)
        };
        let routing = Self {
            samples: std::array::from_fn(|_| none()),
            lines: std::array::from_fn(|_| none()),
            keys: PhantomData,
        };
        for (at, separator) in separators.into_iter().enumerate() {
            routing.set(at, separator);
        }
        routing
    }

    #[inline(always)]
    fn route<N: Kernel>(&self, key: L) -> usize {
        let samples = self.samples.each_ref().map(|line| &line.0);
        // A torn read may count too many.
        let line = L::count_flipped::<N, SAMPLES>(samples, key).min(LINES - 1);
        line * L::LANES + L::count_flipped::<N, 1>([&self.lines[line].0], key)
    }

    #[inline(always)]
    fn get(&self, at: usize) -> L {
        L::get(&self.lines[at / L::LANES], at % L::LANES).flipped()
    }

    #[inline(always)]
    fn set(&self, at: usize, separator: L) {
        let (line, lane) = (at / L::LANES, at % L::LANES);
        L::set(&self.lines[line], lane, separator.flipped());
        if lane == L::LANES - 1 && line + 1 < LINES {
            L::set(
                &self.samples[line / L::LANES],
                line % L::LANES,
                separator.flipped(),
            );
        }
    }

    fn insert(&self, count: usize, at: usize, separator: L) {
        for from in (at..count).rev() {
            self.set(from + 1, self.get(from));
        }
        self.set(at, separator);
    }

    fn remove(&self, count: usize, at: usize) {
        for to in at..count - 1 {
            self.set(to, self.get(to + 1));
        }
        self.set(count - 1, L::MAX);
    }

    fn verify(&self, count: usize) -> Result<(), String> {
        let separators: Vec<L> = (0..Self::ROOM).map(|at| self.get(at)).collect();
        let (live, padding) = separators.split_at(count);
        if !live.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(format!("separators {live:?} do not ascend"));
        }
        if padding.iter().any(|&separator| separator != L::MAX) {
            return Err("a separator stands behind the last".to_owned());
        }
        for line in 0..LINES - 1 {
            let sample = L::get(&self.samples[line / L::LANES], line % L::LANES).flipped();
            if sample != self.get(line * L::LANES + L::LANES - 1) {
                return Err(format!("sample {line} is not the last of its line"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_simd::{Level, Task};

    use super::*;

    struct Route<'a, L>(&'a Routing<L, 1, 3>, L);

    impl<L: SharedNodeKey> Task for Route<'_, L> {
        type Output = usize;
        fn run<N: Kernel>(self) -> usize {
            self.0.route::<N>(self.1)
        }
    }

    #[test]
    fn every_count_of_separators_routes_as_counting_does() {
        routes_as_counting_does(|number| number, [u64::MAX]);
        routes_as_counting_does(|number| number as u32, [u32::MAX, 1 << 31]);
    }

    fn routes_as_counting_does<L: SharedNodeKey, const MORE: usize>(
        key: fn(u64) -> L,
        more: [L; MORE],
    ) {
        let routing: Routing<L, 1, 3> = Routing::new([]);
        let mut model: Vec<L> = Vec::new();
        let check = |model: &[L]| {
            routing.verify(model.len()).expect("sound");
            for key in (0..120).map(key).chain(more) {
                let expected = model.iter().filter(|&&separator| separator < key).count();
                for level in Level::supported() {
                    assert_eq!(
                        level.run(Route(&routing, key)),
                        expected,
                        "{}",
                        level.name()
                    );
                }
            }
        };
        for number in 0..23_u64 {
            let separator = key(number * 37 % 100);
            let at = model.partition_point(|&other| other < separator);
            routing.insert(model.len(), at, separator);
            model.insert(at, separator);
            check(&model);
        }
        while !model.is_empty() {
            let at = model.len() * 2 / 3;
            routing.remove(model.len(), at);
            model.remove(at);
            check(&model);
        }
    }
}
