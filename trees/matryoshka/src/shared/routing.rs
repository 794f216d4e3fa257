//! Ascending separators in lines, with a few lines of samples above: which child has a key?
//!
//! Separator `i` is at or above every key of child `i` and below every key of child `i + 1`.
//! Places without a separator hold the greatest integer, which is below no key, so that a search
//! needs no count. Sample `j` is the last place of line `j`: as many samples are below the key as
//! whole lines are. Words stand in their lines [flipped](hedgerow_simd::flip), as the search wants
//! them.

use hedgerow_simd::{Kernel, flip};

use super::words::{LANES, Words};

/// Room for `8 * LINES` separators; `SAMPLES` lines hold a sample of each line but the last.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Routing<const SAMPLES: usize, const LINES: usize> {
    samples: [Words; SAMPLES],
    lines: [Words; LINES],
}

impl<const SAMPLES: usize, const LINES: usize> Routing<SAMPLES, LINES> {
    pub(crate) const ROOM: usize = LINES * LANES;

    /// These separators.
    pub(crate) fn new(separators: impl IntoIterator<Item = u64>) -> Self {
        const { assert!(SAMPLES * LANES >= LINES - 1) };
        let none = || Words::new([flip(u64::MAX); LANES]);
        let routing = Self {
            samples: std::array::from_fn(|_| none()),
            lines: std::array::from_fn(|_| none()),
        };
        for (at, separator) in separators.into_iter().enumerate() {
            routing.set(at, separator);
        }
        routing
    }

    /// The child that is responsible for `key`.
    #[inline(always)]
    pub(crate) fn route<N: Kernel>(&self, key: u64) -> usize {
        let samples = self.samples.each_ref().map(|line| &line.0);
        // A torn read may count too many.
        let line = N::count_flipped(samples, key).min(LINES - 1);
        line * LANES + N::count_flipped([&self.lines[line].0], key)
    }

    #[inline(always)]
    pub(crate) fn get(&self, at: usize) -> u64 {
        flip(self.lines[at / LANES].get(at % LANES))
    }

    /// Changes one separator, and the sample that repeats it.
    #[inline(always)]
    pub(crate) fn set(&self, at: usize, separator: u64) {
        let (line, lane) = (at / LANES, at % LANES);
        self.lines[line].set(lane, flip(separator));
        if lane == LANES - 1 && line + 1 < LINES {
            self.samples[line / LANES].set(line % LANES, flip(separator));
        }
    }

    /// Puts a separator among the first `count`.
    pub(crate) fn insert(&self, count: usize, at: usize, separator: u64) {
        for from in (at..count).rev() {
            self.set(from + 1, self.get(from));
        }
        self.set(at, separator);
    }

    /// Takes one of the first `count` separators out.
    pub(crate) fn remove(&self, count: usize, at: usize) {
        for to in at..count - 1 {
            self.set(to, self.get(to + 1));
        }
        self.set(count - 1, u64::MAX);
    }

    /// Checks that the first `count` separators ascend, that nothing follows them, and that samples
    /// repeat what they should.
    pub(crate) fn verify(&self, count: usize) -> Result<(), String> {
        let separators: Vec<u64> = (0..Self::ROOM).map(|at| self.get(at)).collect();
        let (live, padding) = separators.split_at(count);
        if !live.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(format!("separators {live:?} do not ascend"));
        }
        if padding.iter().any(|&separator| separator != u64::MAX) {
            return Err("a separator stands behind the last".to_owned());
        }
        for line in 0..LINES - 1 {
            let sample = flip(self.samples[line / LANES].get(line % LANES));
            if sample != self.get(line * LANES + LANES - 1) {
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

    struct Route<'a>(&'a Routing<1, 3>, u64);

    impl Task for Route<'_> {
        type Output = usize;
        fn run<N: Kernel>(self) -> usize {
            self.0.route::<N>(self.1)
        }
    }

    #[test]
    fn every_count_of_separators_routes_as_counting_does() {
        let routing: Routing<1, 3> = Routing::new([]);
        let mut model: Vec<u64> = Vec::new();
        let check = |model: &[u64]| {
            routing.verify(model.len()).expect("sound");
            for key in (0..120).chain([u64::MAX]) {
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
            let separator = number * 37 % 100;
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
