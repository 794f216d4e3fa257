//! libFuzzer shell of the target `commands`; what it checks is in `testkit/src/fuzz`.

#![no_main]

use std::sync::LazyLock;

use hedgerow_testkit::fuzz::{Target, target};

static TARGET: LazyLock<Target> = LazyLock::new(|| target("commands").expect("a known target"));

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.run)(data));
