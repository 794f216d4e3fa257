//! `log-int`, in its forms.

use hedgerow_bst::{BaselineLogInt, HeavyLookups, LogInt, Padded};

use crate::suite::{ordered_suite, suite};

suite!(improved, K, LogInt<K>);
suite!(baseline, K, BaselineLogInt<K>);
suite!(other_flaws, K, LogInt<K, Padded<HeavyLookups>>);
ordered_suite!(ordered_improved, K, LogInt<K>);
ordered_suite!(ordered_baseline, K, BaselineLogInt<K>);
