//! Each planted bug turns a campaign red that is green without it.
//!
//! ```text
//! cargo test -p hedgerow-campaigns --features planted-bugs --test planted_bugs
//! ```

use std::path::Path;

use hedgerow_testkit::plants;

#[test]
fn every_planted_bug_is_found() {
    let seed = rand::random();
    println!("seed {seed}");
    let program = Path::new(env!("CARGO_BIN_EXE_campaign"));
    let findings = plants::run(seed, program).expect("green without a bug");
    // One is left out where no real file system can be cut.
    assert!(findings.len() >= 64, "{} bugs", findings.len());
    let mut unnoticed = Vec::new();
    for finding in findings {
        match &finding.complaint {
            Some(said) => println!(
                "{}: {}",
                finding.bug,
                said.chars().take(160).collect::<String>()
            ),
            None => unnoticed.push(finding.bug),
        }
    }
    assert!(unnoticed.is_empty(), "unnoticed: {unnoticed:?}");
}
