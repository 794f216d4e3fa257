//! Numbers that look random and are the same on every machine and in every version.
//!
//! Generators from elsewhere may change their streams with a new release, and with them every
//! key set and every checksum; so the lab has its own, the smallest that passes for random:
//! splitmix64 (Steele, Lea, Flood, OOPSLA 2014), a counter through a mixing function. And it
//! has [`Permutation`], which shuffles the numbers below a bound without remembering any: the
//! n-th key of a set is a function of n, so that sets of any size cost no memory.

/// A permutation of all 64-bit integers: splitmix64's finaliser after one step of its counter.
#[inline]
#[must_use]
pub fn mix64(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The FNV-1a hash of some bytes, 64 bits wide: checksums of key sets, and what YCSB scrambles
/// its Zipfian ranks with.
#[must_use]
pub fn fnv64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// A stream of random-looking numbers (splitmix64).
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of this seed; close seeds give unrelated streams.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: mix64(seed) }
    }

    /// The stream of one thread among those that share a seed.
    #[must_use]
    pub fn for_thread(seed: u64, thread: u64) -> Self {
        Self::new(mix64(seed) ^ mix64(!thread).rotate_left(17))
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let number = mix64(self.state);
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        number
    }

    /// A number from 0 to below `bound`, each as likely as another up to one part in
    /// 2^64 / `bound`.
    ///
    /// # Panics
    ///
    /// If `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below 0");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 to below 1, a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A random-looking permutation of the numbers below a bound, computed, not stored.
///
/// Multiplying by odd numbers and folding high bits into low ones are invertible modulo a
/// power of two; from the next power of two the walk goes on until it is below the bound
/// (cycle walking: Black and Rogaway, CT-RSA 2002), on average less than twice.
#[derive(Debug, Clone)]
pub struct Permutation {
    bound: u64,
    bits: u32,
    seeds: [u64; 3],
}

impl Permutation {
    /// The permutation of this seed of the numbers 0 to below `bound`.
    ///
    /// # Panics
    ///
    /// If `bound` is 0 or above 2^63.
    #[must_use]
    pub fn new(bound: u64, seed: u64) -> Self {
        assert!(bound > 0 && bound <= 1 << 63, "a permutation below {bound}");
        let mut random = Random::new(seed);
        Self {
            bound,
            bits: (u64::BITS - (bound - 1).leading_zeros()).max(1),
            seeds: std::array::from_fn(|_| random.next_u64()),
        }
    }

    /// Where `n` goes.
    ///
    /// # Panics
    ///
    /// If `n` is not below the bound.
    #[must_use]
    pub fn at(&self, n: u64) -> u64 {
        assert!(n < self.bound, "{n} is not below {}", self.bound);
        let mut place = self.mix(n);
        while place >= self.bound {
            place = self.mix(place);
        }
        place
    }

    /// A permutation of the `bits`-bit integers.
    fn mix(&self, n: u64) -> u64 {
        const MULTIPLIERS: [u64; 3] = [
            0x2545_F491_4F6C_DD1D,
            0x9E37_79B9_7F4A_7C15,
            0xD6E8_FEB8_6659_FD93,
        ];
        let mask = u64::MAX >> (u64::BITS - self.bits);
        let shift = self.bits.div_ceil(2);
        let mut z = n;
        for (seed, multiplier) in self.seeds.iter().zip(MULTIPLIERS) {
            z = ((z ^ seed) & mask).wrapping_mul(multiplier) & mask;
            z ^= z >> shift;
        }
        z
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splitmix_gives_the_numbers_of_its_reference() {
        // The first outputs of the reference implementation for the seed 1234567.
        let mut state = 1_234_567_u64;
        let numbers: Vec<u64> = (0..3)
            .map(|_| {
                let number = mix64(state);
                state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
                number
            })
            .collect();
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
        assert_eq!(fnv64(b"foobar"), 0x8594_4171_F739_67E8);
    }

    #[test]
    fn permutations_visit_every_number_once() {
        for bound in [1, 2, 3, 5, 16, 1000, 4096, 70_001] {
            for seed in 0..3 {
                let permutation = Permutation::new(bound, seed);
                let mut seen = vec![false; bound as usize];
                for n in 0..bound {
                    seen[permutation.at(n) as usize] = true;
                }
                assert!(
                    seen.iter().all(|seen| *seen),
                    "{bound} numbers, seed {seed}"
                );
            }
        }
        let wide = Permutation::new(1 << 63, 1);
        assert!(wide.at((1 << 63) - 1) < 1 << 63);
    }

    #[test]
    fn permutations_look_random() {
        let bound = 100_000_u64;
        let permutation = Permutation::new(bound, 7);
        let places: Vec<u64> = (0..bound).map(|n| permutation.at(n)).collect();
        let ascents = places.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!((45_000..55_000).contains(&ascents), "{ascents} ascents");
        // Each tenth of the sequence spreads over all tenths of the range.
        for tenth in places.chunks(10_000) {
            let mut counts = [0_i64; 10];
            for place in tenth {
                counts[(place / 10_000) as usize] += 1;
            }
            assert!(counts.iter().all(|c| (c - 1000).abs() < 200), "{counts:?}");
        }
    }

    #[test]
    fn streams_differ_by_seed_and_thread_and_fill_their_range() {
        let first = |mut random: Random| random.next_u64();
        let mut firsts: Vec<u64> = (0..50)
            .flat_map(|n| [first(Random::new(n)), first(Random::for_thread(9, n))])
            .collect();
        firsts.sort_unstable();
        firsts.dedup();
        assert_eq!(firsts.len(), 100);
        let mut random = Random::new(1);
        let mean = (0..100_000).map(|_| random.unit()).sum::<f64>() / 100_000.0;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
        let mut counts = [0; 6];
        (0..60_000).for_each(|_| counts[random.below(6) as usize] += 1);
        assert!(
            counts.iter().all(|c| (9500..10_500).contains(c)),
            "{counts:?}"
        );
    }
}
