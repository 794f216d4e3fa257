//! Each planted bug turns a campaign red that is green without it.
//!
//! ```text
//! cargo test -p hedgerow-testkit --features planted-bugs --test planted_bugs
//! ```

use hedgerow_log::PlantedBug;
use hedgerow_testkit::powercut::{LogSubject, PowerCutCampaign, run};

/// Selections are global to the process, so bugs take turns.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn log_power_cuts(images: usize) -> Result<(), String> {
    let seed = rand::random();
    let campaign = PowerCutCampaign {
        images,
        threads: 2,
        seed,
        failures: None,
    };
    run(&campaign, LogSubject::default).map(drop)
}

#[test]
fn power_cuts_find_every_bug_of_the_log() {
    let _turn = ONE_AT_A_TIME.lock().expect("no other test panicked");
    hedgerow_log::plant(None);
    log_power_cuts(500).expect("green without a bug");
    for bug in PlantedBug::ALL {
        hedgerow_log::plant(Some(bug));
        let outcome = std::panic::catch_unwind(|| log_power_cuts(20_000));
        hedgerow_log::plant(None);
        let red = match outcome {
            Ok(Ok(())) => panic!("{bug:?} went unnoticed"),
            Ok(Err(message)) => message,
            Err(_) => "a panic".to_owned(),
        };
        println!("{bug:?}: {}", red.chars().take(160).collect::<String>());
    }
}
