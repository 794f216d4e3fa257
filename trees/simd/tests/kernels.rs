//! Every kernel that this processor can run gives the scalar kernel's answers, bit for bit.

use std::sync::atomic::AtomicU64;

use hedgerow_simd::{
    Kernel, Level, Line32, Line64, SharedLine, Slots, Task, WIDTH, flip_sign, flip_signs,
    live_slots,
};
use proptest::prelude::*;

struct Answers<'a> {
    slots: &'a Slots,
    sorted: &'a Slots,
    order: u64,
    count: usize,
    key: u64,
}

impl Task for Answers<'_> {
    type Output = (u32, usize, usize);
    fn run<K: Kernel>(self) -> Self::Output {
        (
            K::equal(self.slots, self.order, self.key) & live_slots(self.order),
            K::below(self.slots, self.order, self.key),
            K::rank(self.sorted, self.count, self.key),
        )
    }
}

fn slice() -> impl Strategy<Value = u64> {
    prop_oneof![
        0_u64..4,
        any::<u64>(),
        (0_u64..4).prop_map(|x| u64::MAX - x),
        (0_u64..4).prop_map(|x| (1 << 63) - 2 + x),
    ]
}

proptest! {
    #[test]
    fn all_levels_agree(
        slices in proptest::collection::vec(slice(), 16),
        shuffle in Just((0..WIDTH as u64).collect::<Vec<_>>()).prop_shuffle(),
        count in 0..=WIDTH,
        probe in slice(),
        choose in 0..16_usize,
    ) {
        let slots: Slots = std::array::from_fn(|i| AtomicU64::new(slices[i]));
        let mut live: Vec<u64> = shuffle[..count].to_vec();
        live.sort_by_key(|&slot| slices[slot as usize]);
        let mut order = count as u64;
        for (index, slot) in live.iter().chain(&shuffle[count..]).enumerate() {
            order |= slot << (4 * index + 4);
        }
        let mut ascending = slices[..WIDTH].to_vec();
        ascending.sort_unstable();
        let sorted: Slots =
            std::array::from_fn(|i| AtomicU64::new(*ascending.get(i).unwrap_or(&0)));
        let keys = [probe, slices[choose]];
        for key in keys {
            let task = || Answers { slots: &slots, sorted: &sorted, order, count, key };
            let expected = (
                (0..WIDTH).filter(|&i| live.contains(&(i as u64)) && slices[i] == key)
                    .fold(0_u32, |mask, i| mask | 1 << i),
                live.iter().filter(|&&slot| slices[slot as usize] < key).count(),
                ascending[..count].iter().filter(|&&slice| slice <= key).count(),
            );
            for level in Level::supported() {
                prop_assert_eq!(level.run(task()), expected, "{}", level.name());
            }
        }
    }
}

/// A shared line of these lanes, two to a word.
fn pairs(lanes: &[u32]) -> SharedLine {
    let lane = |at: usize| u64::from(lanes[at]);
    std::array::from_fn(|word| (lane(2 * word) | lane(2 * word + 1) << 32).into())
}

#[derive(Clone, Copy)]
struct LineCounts<'a> {
    narrow: &'a [[u32; 16]; 3],
    wide: &'a [[u64; 8]; 3],
    key: u64,
}

impl LineCounts<'_> {
    /// What all kernels must answer. Lines of one writer are of signed integers, those of many are
    /// not.
    fn expected(&self) -> <Self as Task>::Output {
        let Self { narrow, wide, key } = *self;
        let below_32 = |lanes: &[u32]| {
            let below = |&&lane: &&u32| (lane as i32) < key as i32;
            lanes.iter().filter(below).count()
        };
        let below_64 = |lanes: &[u64]| {
            let below = |&&lane: &&u64| (lane as i64) < key as i64;
            lanes.iter().filter(below).count()
        };
        let bits = (0..8).filter(|&lane| wide[0][lane] < key);
        (
            std::array::from_fn(|skip| below_32(&narrow[0][skip..])),
            std::array::from_fn(|skip| below_64(&wide[0][skip..])),
            below_32(narrow.as_flattened()),
            below_64(wide.as_flattened()),
            bits.map(|lane| 1_u32 << lane).sum(),
            [16, 8].map(|lanes| {
                let below = (0..lanes).filter(|&lane| narrow[0][lane] < key as u32);
                below.map(|lane| 1_u32 << lane).sum()
            }),
        )
    }
}

impl Task for LineCounts<'_> {
    type Output = ([usize; 5], [usize; 3], usize, usize, u32, [u32; 2]);
    fn run<K: Kernel>(self) -> Self::Output {
        let (narrow, wide, key) = (self.narrow, self.wide, self.key);
        let shared: SharedLine = std::array::from_fn(|lane| wide[0][lane].into());
        let pairs = pairs(&narrow[0]);
        let signed_32: [Line32; 3] = narrow.map(|line| line.map(|lane| lane as i32));
        let signed_64: [Line64; 3] = wide.map(|line| line.map(|lane| lane as i64));
        (
            std::array::from_fn(|skip| K::count_32(&signed_32[0], skip, key as i32)),
            std::array::from_fn(|skip| K::count_64(&signed_64[0], skip, key as i64)),
            K::count_all_32(signed_32.iter(), key as i32),
            K::count_all_64(signed_64.iter(), key as i64),
            K::below_shared(&shared, key),
            [
                K::below_shared_32(&pairs, key as u32),
                K::below_shared_32(pairs.first_chunk::<4>().expect("half a line"), key as u32),
            ],
        )
    }
}

proptest! {
    #[test]
    fn elements_below_the_key_are_counted(
        words in proptest::collection::vec(slice(), 48),
        probe in slice(),
        choose in 0..48_usize,
    ) {
        let narrow: [[u32; 16]; 3] =
            std::array::from_fn(|line| std::array::from_fn(|lane| words[16 * line + lane] as u32));
        let wide: [[u64; 8]; 3] =
            std::array::from_fn(|line| std::array::from_fn(|lane| words[8 * line + lane]));
        for key in [probe, words[choose]] {
            let counts = LineCounts { narrow: &narrow, wide: &wide, key };
            for level in Level::supported() {
                let got = level.run(counts);
                prop_assert_eq!(got, counts.expected(), "{}", level.name());
            }
        }
    }
}

/// Lines of flipped lanes, wide and narrow ones.
#[derive(Clone, Copy)]
struct Counts<'a> {
    wide: [&'a SharedLine; 3],
    narrow: [&'a SharedLine; 3],
    key: u64,
}

impl Task for Counts<'_> {
    type Output = [usize; 4];
    fn run<K: Kernel>(self) -> Self::Output {
        let Self { wide, narrow, key } = self;
        [
            K::count_flipped(wide, key),
            K::count_flipped([wide[0]], key),
            K::count_flipped_32(narrow, key as u32),
            K::count_flipped_32([narrow[0]], key as u32),
        ]
    }
}

proptest! {
    #[test]
    fn flipped_lines_are_counted(
        words in proptest::collection::vec(slice(), 48),
        probe in slice(),
        choose in 0..48_usize,
    ) {
        let lanes: Vec<u32> = words.iter().map(|&word| word as u32).collect();
        let wide: [SharedLine; 3] = std::array::from_fn(|line| {
            std::array::from_fn(|lane| flip_sign(words[8 * line + lane]).into())
        });
        let narrow: [SharedLine; 3] = std::array::from_fn(|line| {
            let words = pairs(&lanes[16 * line..]);
            words.map(|word| flip_signs(word.into_inner()).into())
        });
        for key in [probe, words[choose]] {
            let count = |most: usize| words[..most].iter().filter(|&&word| word < key).count();
            let count_32 =
                |most: usize| lanes[..most].iter().filter(|&&lane| lane < key as u32).count();
            let expected = [count(24), count(8), count_32(48), count_32(16)];
            let counts = Counts { wide: wide.each_ref(), narrow: narrow.each_ref(), key };
            for level in Level::supported() {
                prop_assert_eq!(level.run(counts), expected, "{}", level.name());
            }
        }
    }
}

/// The ends of the key space, of its halves, and of the halves of a word: where signed and
/// unsigned order, or one half and the other, differ.
const EDGES: [u64; 13] = [
    0,
    1,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) | (1 << 31),
    (1 << 63) - 1,
    1 << 63,
    (1 << 63) | 1,
    u64::MAX - (1 << 32),
    u64::MAX - 1,
    u64::MAX,
];

/// Checks every level with full nodes of `other`, but for `edge` at `position`.
fn check_position(position: usize, edge: u64, other: u64) {
    let value = |slot: usize| if slot == position { edge } else { other };
    let slots: Slots = std::array::from_fn(|slot| value(slot).into());
    let mut live: Vec<usize> = (0..WIDTH).collect();
    live.sort_by_key(|&slot| value(slot));
    let order = live
        .iter()
        .zip(1..)
        .fold(WIDTH as u64, |order, (&slot, nibble)| {
            order | (slot as u64) << (4 * nibble)
        });
    let sorted: Slots =
        std::array::from_fn(|at| live.get(at).map_or(0, |&slot| value(slot)).into());
    let wide: [u64; 8] = std::array::from_fn(value);
    let narrow: [u32; 16] = std::array::from_fn(|lane| value(lane) as u32);
    let flipped: SharedLine = std::array::from_fn(|lane| flip_sign(value(lane)).into());
    let mask = |lanes: usize, hit: &dyn Fn(usize) -> bool| {
        (0..lanes).fold(0_u32, |mask, lane| mask | u32::from(hit(lane)) << lane)
    };
    for key in EDGES {
        let nodes = (
            mask(WIDTH, &|slot| value(slot) == key),
            mask(WIDTH, &|slot| value(slot) < key).count_ones() as usize,
            mask(WIDTH, &|slot| value(slot) <= key).count_ones() as usize,
        );
        let below = mask(8, &|lane| value(lane) < key);
        let below_32 = mask(16, &|lane| narrow[lane] < key as u32);
        let narrow_flipped = pairs(&narrow).map(|word| flip_signs(word.into_inner()).into());
        let lines = LineCounts {
            narrow: &[narrow; 3],
            wide: &[wide; 3],
            key,
        };
        for level in Level::supported() {
            let (slots, sorted) = (&slots, &sorted);
            let answers = Answers {
                slots,
                sorted,
                order,
                count: WIDTH,
                key,
            };
            let name = level.name();
            let counts = level.run(Counts {
                wide: [&flipped; 3],
                narrow: [&narrow_flipped; 3],
                key,
            });
            let [wide_below, narrow_below] = [below, below_32].map(u32::count_ones);
            assert_eq!(
                counts.map(|count| count as u32),
                [3 * wide_below, wide_below, 3 * narrow_below, narrow_below],
                "{name}: {key:#x} beside {edge:#x}, {other:#x}"
            );
            assert_eq!(
                level.run(answers),
                nodes,
                "{name}: {key:#x} beside {edge:#x}, {other:#x}"
            );
            assert_eq!(
                level.run(lines),
                lines.expected(),
                "{name}: {key:#x} beside {edge:#x}, {other:#x}"
            );
        }
    }
}

#[test]
fn every_position_tells_every_edge_from_every_other() {
    for position in 0..16 {
        for edge in EDGES {
            EDGES
                .iter()
                .for_each(|&other| check_position(position, edge, other));
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[test]
fn every_processor_has_sse2_and_a_better_level_comes_later() {
    let names: Vec<&str> = Level::supported()
        .iter()
        .map(|level| level.name())
        .collect();
    assert_eq!(names[..4], ["linear", "binary", "scalar", "sse2"]);
    let wider = ["avx2", "avx512"];
    assert!(wider.starts_with(&names[4..]), "{names:?}");
}
