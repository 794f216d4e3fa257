//! The seed of a test's random choices, printed so that a run that fails can be repeated.

/// A random seed, or the one that the environment variable `HEDGEROW_SEED` names. Prints it.
///
/// # Panics
/// When the variable is no number.
pub fn seed() -> u64 {
    let seed = std::env::var("HEDGEROW_SEED").map_or_else(
        |_| rand::random(),
        |seed| seed.parse().expect("HEDGEROW_SEED is a number"),
    );
    println!("seed {seed}");
    seed
}
