//! `ticket`, in its forms.

use hedgerow_bst::{BaselineTicket, HeavyLookups, ScatteredFields, Ticket};

use crate::suite::suite;

suite!(improved, K, Ticket<K>);
suite!(baseline, K, BaselineTicket<K>);
suite!(other_flaws, K, Ticket<K, ScatteredFields<HeavyLookups>>);
