//! Who shall take part in a run, and where: `--only`, `--peers` and `--points`.

use hedgerow_lab_contender::Entry;
use hedgerow_lab_report::{OURS, X};

use crate::experiment::Point;
use crate::registry::Registry;
use crate::servers;
use crate::{LabError, Result};
use hedgerow_lab_own::Empty;
use serde_json::Value;

/// What the user asked for.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Parts of names of contenders; empty for all.
    pub only: Vec<String>,
    /// Parts of names of other people's systems, or the word `none`; empty for all.
    pub peers: Vec<String>,
    /// Parts of positions or parameters of points; empty for all.
    pub points: Vec<String>,
}

impl Wanted {
    /// Refuses a word for peers that stands for none: likely a slip, and one that would be
    /// noticed when the run is over.
    pub fn check(&self, registry: &Registry) -> Result<()> {
        let maps = registry.maps.iter().map(|map| &map.entry);
        let sets = registry.sets.iter().map(|set| &set.entry);
        let stores = registry.stores.iter().map(|store| &store.entry);
        let servers = servers::all();
        let servers = servers.iter().map(|server| &server.entry);
        let all: Vec<&Entry> = maps.chain(sets).chain(stores).chain(servers).collect();
        for part in self.peers.iter().filter(|part| *part != NONE) {
            let mut peers = all.iter().filter(|entry| is_peer(entry));
            if !peers.any(|entry| entry.name.contains(part.as_str())) {
                return Err(LabError::Usage(format!(
                    "--peers: no peer's name contains '{part}' (`hedgerow-lab list` shows them; \
                     'none' leaves all out)"
                )));
            }
        }
        Ok(())
    }

    /// Whether this contender takes part. The empty one always does, and of other people's that
    /// one to which ratios are taken.
    pub fn lets_through(&self, entry: &Entry, baseline: &str) -> bool {
        let named = |parts: &[String]| has_one_of(entry.name, parts);
        let peer_left_out = !self.peers.is_empty()
            && is_peer(entry)
            && entry.name != baseline
            && !named(&self.peers);
        let left_out = !self.only.is_empty() && !named(&self.only);
        entry.name == Empty::NAME || !(peer_left_out || left_out)
    }

    /// Whether this point is visited.
    pub fn has_point(&self, point: &Point) -> bool {
        let position = match &point.x {
            Some(X::Category(name)) => name.clone(),
            Some(X::Number(number)) => number.to_string(),
            None => String::new(),
        };
        let parameters = point.parameters.values().map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        let mut words = parameters.chain([position]);
        self.points.is_empty() || words.any(|word| has_one_of(&word, &self.points))
    }
}

/// Whether a name has one of these parts.
fn has_one_of(name: &str, parts: &[String]) -> bool {
    parts.iter().any(|part| name.contains(part.as_str()))
}

/// The word that leaves all peers out; no name contains it.
const NONE: &str = "none";

/// Whether this is other people's work: not ours, nor what the lab has to compare with.
fn is_peer(entry: &Entry) -> bool {
    entry.origin != OURS && !entry.origin.starts_with("the lab")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Need;

    fn names(only: &[&str], peers: &[&str]) -> Vec<&'static str> {
        let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
        let wanted = Wanted {
            only: words(only),
            peers: words(peers),
            points: Vec::new(),
        };
        let registry = Registry::new();
        wanted.check(&registry).expect("there are such peers");
        let maps = registry.maps.iter().map(|map| &map.entry);
        let through = maps.filter(|entry| wanted.lets_through(entry, "std BTreeMap"));
        through.map(|entry| entry.name).collect()
    }

    #[test]
    fn peers_are_chosen_by_parts_of_their_names() {
        let all = names(&[], &[]);
        assert!(all.contains(&"JudyL") && all.contains(&"hedgerow inline"));
        let none = names(&[], &["none"]);
        assert!(!none.contains(&"JudyL") && !none.contains(&"std BTreeMap u64"));
        for stays in ["hedgerow inline", "std BTreeMap", Empty::NAME] {
            assert!(none.contains(&stays), "{stays}");
        }
        let some = names(&[], &["Judy", "blart"]);
        assert!(some.contains(&"JudySL") && some.contains(&"blart u64"));
        assert!(!some.contains(&"congee"));
        let both = names(&["hedgerow inline", "Judy"], &["JudyL"]);
        assert_eq!(both, ["hedgerow inline", Empty::NAME, "JudyL u32", "JudyL"]);
    }

    #[test]
    fn points_are_chosen_by_their_position_or_a_parameter() {
        let point = Point {
            parameters: [("operation".to_owned(), "zipf lookup".into())].into(),
            x: Some(X::Category("paths".to_owned())),
            contenders: Vec::new(),
            need: Need::default(),
            workload: Value::Null,
            verified_by: Value::Null,
        };
        let has = |points: &[&str]| {
            let wanted = Wanted {
                points: points.iter().map(|part| (*part).to_owned()).collect(),
                ..Wanted::default()
            };
            wanted.has_point(&point)
        };
        assert!(has(&[]) && has(&["words", "paths"]) && has(&["lookup"]));
        assert!(!has(&["words"]) && !has(&["operation"]));
    }

    #[test]
    fn a_word_that_stands_for_no_peer_is_refused() {
        let wanted = Wanted {
            only: Vec::new(),
            peers: vec!["hedgerow".to_owned()],
            points: Vec::new(),
        };
        let error = wanted.check(&Registry::new()).expect_err("ours is no peer");
        assert!(error.to_string().contains("'hedgerow'"), "{error}");
    }
}
