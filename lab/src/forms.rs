//! Who stands for a kind in an experiment of many points.
//!
//! A map over any ordered type takes part in several *forms*: keys as integers, short keys in
//! place, keys of any length on the heap; and our trees have *variants*. `masstree/operations`
//! measures them all. Where there are many points, each map comes in the one form that suits
//! the point's keys best, as a user who knows the keys would choose it, and each of our trees
//! in its standard variant: a round then takes minutes, and nobody is missing.
//!
//! The names say it: that of a form is its map's with a last word (` u32`, ` u64`, ` short`).

use hedgerow_lab_contender::MapEntry;
use hedgerow_lab_report::OURS;

use crate::contestant::Contestant;
use crate::registry::Registry;

/// The last words of forms, those for the fewest keys first.
const FORMS: [&str; 3] = [" u32", " u64", " short"];

/// The variants of our trees that stand for them beside peers.
const STANDARD: [&str; 5] = [
    "hedgerow inline",
    "btree adaptive",
    "matryoshka flat u32",
    "matryoshka flat u64",
    "matryoshka shared u64",
];

/// The map that a name is a form of.
#[must_use]
pub fn map_of(name: &str) -> &str {
    let mut forms = FORMS.iter();
    let form = forms.find_map(|form| name.strip_suffix(form));
    form.unwrap_or(name)
}

/// How special a form is: of two that take the same keys, the one with the lower rank suits
/// them better.
fn rank(name: &str) -> usize {
    let mut forms = FORMS.iter();
    let found = forms.position(|form| name.ends_with(form));
    found.unwrap_or(FORMS.len())
}

/// Whether, among those of `names` that are forms of the same map, this one suits best.
#[must_use]
pub fn suits_best(name: &str, names: &[&str]) -> bool {
    let mut others = names.iter().filter(|other| map_of(other) == map_of(name));
    others.all(|other| rank(other) >= rank(name))
}

/// Everyone in the one form that suits the keys of each point, ours in their standard variants.
#[must_use]
pub fn best_of_all(registry: &Registry) -> Vec<Contestant> {
    best_of_all_and(registry, |_| false)
}

/// The same and the B-tree without any optimisation, which the paper's figures have beside the
/// adaptive one.
#[must_use]
pub fn best_of_all_and_the_baseline(registry: &Registry) -> Vec<Contestant> {
    best_of_all_and(registry, |name| name == "btree baseline")
}

/// The same with all layouts of our B-tree for one thread, since the source compares those of its
/// own, and with options of semi dense leaves.
#[must_use]
pub fn best_of_all_and_layouts(registry: &Registry) -> Vec<Contestant> {
    let is_layout = |name: &str| name.starts_with("btree ") && !name.starts_with("btree shared ");
    let mut maps = best_of_all_and(registry, is_layout);
    let options = hedgerow_lab_own::btree_semi_dense().into_iter();
    maps.extend(options.map(Contestant::from));
    maps
}

/// The same, with those of our variants that `also` lets through.
#[must_use]
pub fn best_of_all_and(registry: &Registry, also: fn(&str) -> bool) -> Vec<Contestant> {
    let wanted = |map: &&MapEntry| {
        let name = map.entry.name;
        map.entry.origin != OURS || STANDARD.contains(&name) || also(name)
    };
    let maps = registry.maps.iter().filter(wanted);
    maps.map(|map| Contestant {
        only_if_best: true,
        ..Contestant::from(map.clone())
    })
    .collect()
}

/// Those of [`best_of_all`] that many threads can share.
#[must_use]
pub fn concurrent_best(registry: &Registry) -> Vec<Contestant> {
    concurrent_best_and(registry, |_| false)
}

/// The same, with those of our variants that `also` lets through.
#[must_use]
pub fn concurrent_best_and(registry: &Registry, also: fn(&str) -> bool) -> Vec<Contestant> {
    let mut maps = best_of_all_and(registry, also);
    maps.retain(|contestant| contestant.map.entry.promises.concurrent);
    maps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrowest_form_suits_best() {
        let all = ["scc", "scc short", "scc u64", "blart u64", "JudySL"];
        let best = all.iter().filter(|name| suits_best(name, &all));
        assert_eq!(
            best.collect::<Vec<_>>(),
            [&"scc u64", &"blart u64", &"JudySL"]
        );
        assert_eq!(map_of("scc TreeIndex short"), "scc TreeIndex");
        assert!(suits_best("scc short", &["scc", "scc short", "blart"]));
    }

    #[test]
    fn our_standard_variants_exist_and_no_peer_is_left_out() {
        let registry = Registry::new();
        let chosen = best_of_all(&registry);
        let is_in = |name: &str| chosen.iter().any(|one| one.map.entry.name == name);
        assert!(STANDARD.iter().all(|name| is_in(name)));
        let mut peers = registry.maps.iter().filter(|map| map.entry.origin != OURS);
        assert!(peers.all(|map| is_in(map.entry.name)));
        let more = best_of_all_and(&registry, |name| name.starts_with("matryoshka "));
        assert!(more.len() > chosen.len());
    }
}
