//! The external tree of Natarajan and Mittal.

use hedgerow_bst::{BaselineEdgeExtLf2, EdgeExtLf, HeavyLookups, ScatteredFields};

use crate::suite::{ordered_suite, suite};

suite!(improved, K, EdgeExtLf<K>);
suite!(padded, K, BaselineEdgeExtLf2<K>);
suite!(heavy_and_scattered, K, EdgeExtLf<K, HeavyLookups<ScatteredFields>>);
ordered_suite!(improved_in_order, K, EdgeExtLf<K>);
ordered_suite!(padded_in_order, K, BaselineEdgeExtLf2<K>);
