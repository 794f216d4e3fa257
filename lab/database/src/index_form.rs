//! What an index is made over: a map, or a tree that is a multimap by itself.

use hedgerow_memory::Placement;

use crate::key_map::KeyMap;
use crate::locked_lists::LockedLists;
use crate::multimap::Multimap;

/// What an index is made over; it is empty.
pub enum IndexForm {
    /// Linked lists, whose heads the map leads to.
    Lists(Box<dyn KeyMap>),
    /// A multimap that needs no lists.
    Multimap(Box<dyn Multimap>),
}

impl IndexForm {
    /// Lists over a map.
    #[must_use]
    pub fn lists(map: impl KeyMap + 'static) -> Self {
        Self::Lists(Box::new(map))
    }

    /// The index, for about so many keys; items of lists come from there.
    pub(crate) fn into_multimap(self, keys: usize, items: Placement) -> Box<dyn Multimap> {
        match self {
            Self::Lists(map) => Box::new(<LockedLists>::new(map, keys, items)),
            Self::Multimap(multimap) => multimap,
        }
    }
}

/// Makes what an index is made over, with the nodes from a place.
#[derive(Debug, Clone, Copy)]
pub enum NewIndex {
    /// A map from integers to words.
    Map(fn(Placement) -> Box<dyn KeyMap>),
    /// A multimap.
    Multimap(fn(Placement) -> Box<dyn Multimap>),
}

impl NewIndex {
    /// What an index is made over.
    #[must_use]
    pub fn form(self, nodes: Placement) -> IndexForm {
        match self {
            Self::Map(new) => IndexForm::Lists(new(nodes)),
            Self::Multimap(new) => IndexForm::Multimap(new(nodes)),
        }
    }

    /// The map alone; none if there is no map.
    #[must_use]
    pub fn map(self, nodes: Placement) -> Option<Box<dyn KeyMap>> {
        match self {
            Self::Map(new) => Some(new(nodes)),
            Self::Multimap(_) => None,
        }
    }
}
