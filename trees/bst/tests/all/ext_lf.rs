//! The external tree of Ellen, Fatourou, Ruppert and van Breugel.

use hedgerow_bst::{BaselineExtLf, ExtLf, Padded, ScatteredFields};

use crate::suite::suite;

suite!(improved, K, ExtLf<K>);
suite!(baseline, K, BaselineExtLf<K>);
suite!(padded_and_scattered, K, ExtLf<K, Padded<ScatteredFields>>);
