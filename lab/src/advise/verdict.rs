//! From rounds to a recommendation: who is fastest on the user's mix, by how much, whether
//! that is more than chance, and what it owes it to.

use std::cmp::Ordering;
use std::fmt::Write;

use hedgerow_lab_report::Rounds;

use super::round::Round;
use super::served;
use crate::registry::Registry;

/// A map with its rounds.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The map's name.
    pub name: String,
    /// Its rounds.
    pub rounds: Vec<Round>,
}

/// The throughput of some rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throughput {
    /// The median.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

/// What a map's rounds come to.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// The map's name.
    pub name: String,
    /// Millions of operations of the mix a second.
    pub mops: Throughput,
    /// Millions of loaded records a second, median.
    pub load_mops: f64,
    /// Memory for each record, median, with the values that the map only points to; none where
    /// the map was too small to tell.
    pub bytes_per_key: Option<f64>,
    /// Nanoseconds of each kind by itself, medians.
    pub single_ns: Vec<(String, f64)>,
}

impl Measured {
    /// The medians over all rounds. Memory counts the bytes of a value that a map only points to.
    #[must_use]
    pub fn figures(&self, pointed_to: usize) -> Figures {
        let over = |figure: &dyn Fn(&Round) -> f64| {
            let mut rounds = Rounds::default();
            self.rounds
                .iter()
                .for_each(|round| rounds.push(figure(round)));
            rounds
        };
        let mops = over(&|round| round.operations as f64 / round.mix_seconds / 1e6);
        let mut bytes_per_key = Rounds::default();
        let known = self.rounds.iter().filter_map(|round| round.bytes_per_key);
        known.for_each(|bytes| bytes_per_key.push(bytes));
        let bytes_per_key = (!bytes_per_key.is_empty()).then(|| bytes_per_key.median());
        let kinds = self
            .rounds
            .first()
            .map_or(&[][..], |round| &round.single_ns);
        let single_ns = kinds.iter().enumerate().map(|(nth, (kind, _))| {
            let ns = over(&|round| round.single_ns.get(nth).map_or(f64::NAN, |(_, ns)| *ns));
            (kind.clone(), ns.median())
        });
        Figures {
            name: self.name.clone(),
            mops: Throughput {
                median: mops.median(),
                min: mops.min(),
                max: mops.max(),
            },
            load_mops: over(&|round| round.loaded as f64 / round.load_seconds / 1e6).median(),
            bytes_per_key: bytes_per_key.map(|bytes| bytes + pointed_to as f64),
            single_ns: single_ns.collect(),
        }
    }
}

/// The widest bar of the plot.
const BAR_WIDTH: f64 = 30.0;

/// The table, best first, with a bar for each map's throughput.
#[must_use]
pub fn table(ranked: &[Figures]) -> String {
    let Some(best) = ranked.first() else {
        return String::new();
    };
    let width = ranked
        .iter()
        .map(|map| map.name.chars().count())
        .max()
        .unwrap_or(0)
        .max(3);
    let mut text = format!(
        "{:<width$}  {:>7}  {:>15}  {:>6}",
        "map", "Mops/s", "min to max", "ratio"
    );
    for (kind, _) in &best.single_ns {
        let _ = write!(text, "  {:>9}", format!("{kind} ns"));
    }
    text.push_str("  load Mops/s  bytes/key\n");
    for map in ranked {
        let Throughput { median, min, max } = map.mops;
        let ratio = median / best.mops.median;
        let spread = format!("{min:.2} to {max:.2}");
        let _ = write!(
            text,
            "{:<width$}  {median:>7.2}  {spread:>15}  {ratio:>6.2}",
            map.name
        );
        for (_, ns) in &map.single_ns {
            let _ = write!(text, "  {ns:>9.0}");
        }
        let bar = "█".repeat((ratio * BAR_WIDTH).round().max(1.0) as usize);
        let _ = writeln!(text, "  {:>11.2}  {:>9}  {bar}", map.load_mops, bytes(map));
    }
    text
}

fn bytes(map: &Figures) -> String {
    map.bytes_per_key
        .map_or_else(|| "–".to_owned(), |bytes| format!("{bytes:.1}"))
}

/// Whether a map takes less than 95 % of another's memory.
fn much_leaner(map: &Figures, than: &Figures) -> bool {
    let both = map.bytes_per_key.zip(than.bytes_per_key);
    both.is_some_and(|(map, than)| map < than * 0.95)
}

/// Orders maps by memory; those of unknown size are alike.
fn by_memory(a: &Figures, b: &Figures) -> Ordering {
    match (a.bytes_per_key, b.bytes_per_key) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => Ordering::Equal,
    }
}

/// The recommendation, where that map is to be had, and the reasons, for figures that are ranked
/// best first. A map that the registry lacks is recommended without a place.
#[must_use]
pub fn recommendation(ranked: &[Figures], rounds: usize, registry: &Registry) -> String {
    let Some(best) = ranked.first() else {
        return "No map could be measured on these keys.".to_owned();
    };
    // Whose spread reaches into the best one's may be as fast: among them memory decides,
    // where it is clearly less.
    let peers: Vec<&Figures> = ranked
        .iter()
        .filter(|map| map.mops.max >= best.mops.min)
        .collect();
    let leaner = peers.iter().filter(|map| much_leaner(map, best));
    let chosen = leaner
        .min_by(|a, b| by_memory(a, b))
        .map_or(best, |map| map);
    let mut text = format!("Take {}.", chosen.name);
    if let Some(map) = registry.map(&chosen.name) {
        let _ = write!(text, " {}", served::place(&map.entry));
    }
    if peers.len() > 1 && rounds > 1 {
        let names: Vec<&str> = peers.iter().map(|map| map.name.as_str()).collect();
        let names = names.join(", ");
        let _ = write!(
            text,
            " {names} are equally fast within the spread of {rounds} rounds"
        );
        text.push_str(match chosen.name == best.name {
            true => "; it has the best median.",
            false => "; it takes the least memory.",
        });
    }
    let others = ranked.iter().filter(|map| map.name != chosen.name);
    let mut slower = others.filter(|map| !peers.iter().any(|peer| peer.name == map.name));
    if let Some(next) = slower.next() {
        let _ = write!(
            text,
            " On your mix it does {:.2} million operations a second, {:.2} times as many as {}",
            chosen.mops.median,
            chosen.mops.median / next.mops.median,
            next.name
        );
        if rounds > 1 {
            let _ = write!(text, ", with no overlap in {rounds} rounds");
        }
        text.push('.');
        text.push_str(&reason(chosen, next));
    }
    if rounds < 3 {
        text.push_str(" That is too few rounds to be sure: give it a larger --time-budget.");
    }
    text
}

/// In which operations the chosen map is ahead and what it pays for it.
fn reason(chosen: &Figures, next: &Figures) -> String {
    let mut leads: Vec<(String, f64)> = Vec::new();
    for ((kind, ours), (_, theirs)) in chosen.single_ns.iter().zip(&next.single_ns) {
        leads.push((kind.clone(), theirs / ours));
    }
    let (ahead, behind): (Vec<_>, Vec<_>) = leads.into_iter().partition(|(_, lead)| *lead >= 1.0);
    let list = |leads: Vec<(String, f64)>, invert: bool| {
        let words = leads.into_iter().map(|(kind, lead)| {
            let times = if invert { 1.0 / lead } else { lead };
            format!("{kind} ({times:.2} times)")
        });
        words.collect::<Vec<_>>().join(", ")
    };
    let mut text = String::new();
    if !ahead.is_empty() {
        let _ = write!(text, " By itself it is faster in: {}.", list(ahead, false));
    }
    if !behind.is_empty() {
        let _ = write!(text, " It is slower in: {}.", list(behind, true));
    }
    if let (Some(ours), Some(theirs)) = (chosen.bytes_per_key, next.bytes_per_key) {
        let _ = write!(
            text,
            " It takes {ours:.1} bytes per key, {} {theirs:.1}.",
            next.name
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &str, seconds: &[f64], bytes: f64) -> Figures {
        let rounds = seconds.iter().map(|seconds| Round {
            loaded: 1_000_000,
            load_seconds: 1.0,
            operations: 1_000_000,
            mix_seconds: *seconds,
            bytes_per_key: Some(bytes),
            single_ns: vec![("read".into(), seconds * 900.0), ("scan".into(), 5000.0)],
            scanned: (0, 0),
        });
        Measured {
            name: name.into(),
            rounds: rounds.collect(),
        }
        .figures(0)
    }

    #[test]
    fn a_clear_winner_is_recommended_with_its_lead() {
        let ranked = [
            measured("quick", &[0.25, 0.26, 0.24], 40.0),
            measured("slow", &[0.5, 0.51, 0.5], 30.0),
        ];
        let text = recommendation(&ranked, 3, &Registry::new());
        assert!(
            text.starts_with("Take quick. On your mix it does 4.00 million"),
            "{text}"
        );
        assert!(
            text.contains("2.00 times as many as slow, with no overlap in 3 rounds."),
            "{text}"
        );
        assert!(
            text.contains("read (2.00 times)")
                && text.contains("It takes 40.0 bytes per key, slow 30.0."),
            "{text}"
        );
        let table = table(&ranked);
        assert!(
            table.contains("quick     4.00     3.85 to 4.17    1.00"),
            "{table}"
        );
        assert_eq!(table.lines().count(), 3);
    }

    #[test]
    fn among_equals_memory_decides_and_few_rounds_are_owned_up_to() {
        let ranked = [
            measured("quick", &[0.25, 0.35], 40.0),
            measured("lean", &[0.28, 0.3], 20.0),
        ];
        let text = recommendation(&ranked, 2, &Registry::new());
        assert!(
            text.starts_with("Take lean. quick, lean are equally fast"),
            "{text}"
        );
        assert!(text.ends_with("give it a larger --time-budget."), "{text}");
        assert_eq!(
            recommendation(&[], 0, &Registry::new()),
            "No map could be measured on these keys."
        );
    }

    #[test]
    fn the_advice_says_where_the_map_is_to_be_had() {
        let of = |name: &str| {
            let ranked = [measured(name, &[0.25, 0.26, 0.24], 40.0)];
            recommendation(&ranked, 3, &Registry::new())
        };
        let served = of("btree shared adaptive");
        assert_eq!(
            served,
            "Take btree shared adaptive. It is `hedgerow serve --index btree`."
        );
        let inline = of("hedgerow inline");
        assert!(
            inline.contains("library alone") && inline.contains("--index masstree"),
            "{inline}"
        );
    }

    #[test]
    fn values_that_a_map_points_to_count_as_memory() {
        let map = Measured {
            name: "m".into(),
            rounds: vec![Round {
                loaded: 1,
                bytes_per_key: Some(50.0),
                ..Round::default()
            }],
        };
        assert_eq!(map.figures(0).bytes_per_key, Some(50.0));
        assert_eq!(map.figures(100).bytes_per_key, Some(150.0));
    }
}
