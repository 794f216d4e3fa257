//! `hedgerow-lab advise`: which map suits a user's own keys and mix of operations.
//!
//! The keys are described, every map of the registry that can hold them is verified on them,
//! and the maps then take turns on the user's mix, each round in a fresh process, for as long
//! as the time budget allows. The number of keys is cut, with a word about it, where all of
//! them would leave no time for several rounds.

mod arguments;
mod published;
mod round;
mod served;
mod verdict;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hedgerow_lab_contender::MapEntry;
use hedgerow_lab_data::key_set::read_every_line;
use hedgerow_lab_data::{Description, KeySet, Keys};
use hedgerow_lab_peers::Limits;
use hedgerow_lab_report::write_report;

use crate::registry::Registry;
use crate::{LabError, Result};
pub use arguments::AdviseArguments;
use hedgerow_lab_own::Empty;
use round::LEAST_OPERATIONS;
pub use round::{Job, Round};
use verdict::{Figures, Measured};

/// The hidden subcommand that does one round and prints its answer.
pub const SUBCOMMAND: &str = "advise-round";

/// Rounds wanted of every map.
const ROUNDS: usize = 5;

/// Keys that the first round is measured with, to know how many there is time for. It counts only
/// where no time is left.
const FIRST_KEYS: usize = 100_000;

/// Describes keys, measures maps on them and recommends one.
///
/// # Errors
///
/// When the keys cannot be read, the mix makes no sense, or no map can be measured.
pub fn run(arguments: &AdviseArguments) -> Result<()> {
    let start = Instant::now();
    eprintln!("reading the keys");
    let keys = given_keys(&arguments.keys, arguments.most_keys)?;
    let description =
        Description::of(&keys).ok_or_else(|| LabError::Usage("there are no keys".to_owned()))?;
    println!("{description}\n");
    eprintln!("sorting and shuffling {} keys", description.distinct);

    let directory = tempfile::tempdir()?;
    let file = directory.path().join("keys");
    // Insertion in a random order is the harder and the more usual case, and neighbours in
    // the file shall not be neighbours in popularity.
    let keys = keys.sorted().shuffled(1);
    round::write_keys(&keys, &file)?;
    let job = Job {
        map: String::new(),
        keys: file,
        count: keys.len(),
        mix: arguments.mix,
        distribution: arguments.distribution.clone(),
        scan_length: arguments.scan_length,
        verify: false,
    };
    round::plan(&job.workload()?, keys.len() as u64)?;

    let mut contest = Contest {
        job,
        budget: Duration::from_secs(arguments.time_budget),
        start,
        ask,
        maps: Vec::new(),
    };
    eprintln!("comparing answers with a model's");
    let registry = Registry::new();
    contest.admit(&registry, arguments.concurrent, &description, &keys);
    eprintln!("measuring");
    let rounds = contest.measure(keys.len());
    let mut ranked: Vec<_> = contest
        .maps
        .iter()
        .filter(|map| !map.rounds.is_empty())
        .map(|map| map.figures(arguments.pointed_to_bytes()))
        .collect();
    if ranked.is_empty() {
        return Err(LabError::Process(
            "no map could be measured on these keys".to_owned(),
        ));
    }
    ranked.sort_by(|a, b| b.mops.median.total_cmp(&a.mops.median));
    println!("{}", verdict::table(&ranked));
    let advice = verdict::recommendation(&ranked, rounds, &registry);
    println!("{advice}");
    if arguments.values > 8 {
        println!(
            "Memory counts your {} bytes of value beside the map; speed is that of 8-byte values.",
            arguments.values
        );
    }
    publish(arguments, &contest.maps, &ranked, &advice)
}

/// Writes what `--json` and `--out` ask for.
fn publish(
    arguments: &AdviseArguments,
    maps: &[Measured],
    ranked: &[Figures],
    advice: &str,
) -> Result<()> {
    let temporary = tempfile::tempdir()?;
    let unnamed = temporary.path().join("results");
    let file = arguments.json.as_deref();
    if file.is_none() && arguments.out.is_none() {
        return Ok(());
    }
    let file = file.unwrap_or(&unnamed);
    published::write(file, arguments, maps, ranked, advice)?;
    if let Some(folder) = &arguments.out {
        let written = write_report(&[file], folder).map_err(LabError::from_display)?;
        println!("{}", written[0].display());
    }
    Ok(())
}

/// The user's keys, repeats and all.
fn given_keys(name: &str, most: usize) -> Result<Keys> {
    let keys = match name {
        "-" => read_every_line(std::io::stdin().lock(), "standard input")?,
        name if Path::new(name).exists() => {
            let unreadable = |error| LabError::Usage(format!("cannot read {name}: {error}"));
            let file = std::fs::File::open(name).map_err(unreadable)?;
            read_every_line(std::io::BufReader::new(file), name)?
        }
        name => match name.parse::<KeySet>() {
            Ok(set) => set.up_to(most)?,
            Err(error) => {
                return Err(LabError::Usage(format!(
                    "there is no file '{name}', and {error}"
                )));
            }
        },
    };
    if keys.len() <= most {
        return Ok(keys);
    }
    println!("taking {most} of {} keys evenly (--most-keys)", keys.len());
    let position = |n: usize| (n as u128 * keys.len() as u128 / most as u128) as usize;
    Ok(keys.select((0..most).map(position)))
}

/// The maps in the running, and the time they have.
struct Contest {
    job: Job,
    budget: Duration,
    start: Instant,
    /// Does a job in a process of its own.
    ask: fn(&Job) -> Result<Round>,
    maps: Vec<Measured>,
}

impl Contest {
    /// Admits the maps that can hold the keys, serve the mix and answer rightly; says why of
    /// each that is left out.
    fn admit(
        &mut self,
        registry: &Registry,
        concurrent: bool,
        description: &Description,
        keys: &Keys,
    ) {
        let ordered = self.job.scans();
        for map in registry
            .maps
            .iter()
            .filter(|map| map.entry.name != Empty::NAME)
        {
            let name = map.entry.name;
            let admitted = eligible(map, concurrent, ordered, description);
            let admitted = admitted.and_then(|()| {
                within(&registry.limits(name), ordered, keys)?;
                let verify = Job {
                    count: self.job.count.min(FIRST_KEYS),
                    verify: true,
                    map: name.to_owned(),
                    ..self.job.clone()
                };
                let verified = (self.ask)(&verify);
                verified.map(drop).map_err(|error| error.to_string())
            });
            match admitted {
                Ok(()) => self.maps.push(Measured {
                    name: name.to_owned(),
                    rounds: Vec::new(),
                }),
                Err(why) => println!("{name} takes no part: {why}"),
            }
        }
    }

    /// Lets the maps take turns until there are enough rounds or no time is left; how many
    /// rounds each had, which is one at least.
    fn measure(&mut self, keys: usize) -> usize {
        let first = keys.min(FIRST_KEYS);
        self.job.count = first;
        let began = Instant::now();
        self.measure_round(false);
        let took = began.elapsed().as_secs_f64();
        let left = self
            .budget
            .saturating_sub(self.start.elapsed())
            .as_secs_f64();
        // Few keys are gone through several times. Larger maps are slower per key: half of what
        // a straight line would allow.
        let each = took / (self.job.count as f64).max(LEAST_OPERATIONS as f64);
        let affordable = left / ROUNDS as f64 / each / 2.0;
        self.job.count = keys.min((affordable as usize).max(self.job.count));
        if self.job.count < keys {
            println!(
                "measuring with {} of the keys, as --time-budget is {} seconds",
                self.job.count,
                self.budget.as_secs()
            );
        }
        // Where no time is left the first round is what there is, if it was with as many keys.
        let mut rounds = usize::from(self.is_late() && self.job.count == first);
        self.cut_to(rounds);
        let mut longest = Duration::ZERO;
        while rounds < ROUNDS && !self.maps.is_empty() {
            if rounds > 0 && self.start.elapsed() + longest > self.budget {
                break;
            }
            let before = Instant::now();
            // The table has no row for a map without a round, so the first one is not cut short.
            if !self.measure_round(rounds > 0) {
                break;
            }
            rounds += 1;
            longest = longest.max(before.elapsed());
        }
        self.cut_to(rounds);
        println!("{rounds} rounds of each map, in turns\n");
        rounds
    }

    /// Whether all the time is used up.
    fn is_late(&self) -> bool {
        self.start.elapsed() >= self.budget
    }

    /// Leaves each map so many rounds.
    fn cut_to(&mut self, rounds: usize) {
        for map in &mut self.maps {
            map.rounds.truncate(rounds);
        }
    }

    /// One round of every map; whether it is complete, as it ends early if it may and all the time
    /// is used up. A map that fails, or whose scans differ from the first map's, is out, with a
    /// line that says why.
    fn measure_round(&mut self, may_end_early: bool) -> bool {
        let (start, budget, ask) = (self.start, self.budget, self.ask);
        let mut is_complete = true;
        let mut scanned = None;
        let mut job = self.job.clone();
        self.maps.retain_mut(|map| {
            if may_end_early && start.elapsed() >= budget {
                is_complete = false;
                return true;
            }
            job.map.clone_from(&map.name);
            let round =
                ask(&job)
                    .map_err(|error| error.to_string())
                    .and_then(|round| {
                        match *scanned.get_or_insert(round.scanned) == round.scanned {
                            true => Ok(round),
                            false => {
                                Err("its scans see other pairs than the first map's".to_owned())
                            }
                        }
                    });
            match round {
                Ok(round) => {
                    map.rounds.push(round);
                    true
                }
                Err(why) => {
                    println!("{} is out: {why}", map.name);
                    false
                }
            }
        });
        is_complete
    }
}

/// Whether a map's promises cover the keys and the mix, or what is missing.
fn eligible(
    map: &MapEntry,
    concurrent: bool,
    ordered: bool,
    keys: &Description,
) -> std::result::Result<(), String> {
    let promises = &map.entry.promises;
    if let Err(unavailable) = &map.build {
        return Err(unavailable.to_string());
    }
    if ordered && !promises.ordered {
        return Err("it has no order, and the mix scans".to_owned());
    }
    if concurrent && !promises.concurrent {
        return Err("it is for one thread".to_owned());
    }
    let only = promises.longest_key.unwrap_or(8);
    if !promises.variable_keys && keys.fixed_bytes != Some(only) {
        return Err(format!("it holds {only}-byte keys only"));
    }
    match promises.longest_key {
        Some(limit) if keys.longest > limit => Err(format!("it holds keys of up to {limit} bytes")),
        _ => Ok(()),
    }
}

/// Whether the keys are among those that a map answers rightly with, or what they are beyond.
fn within(limits: &Limits, ordered: bool, keys: &Keys) -> std::result::Result<(), String> {
    let refusal = match ordered {
        true => limits.scan_refusal(keys),
        false => limits.refusal(keys),
    };
    refusal.map_or(Ok(()), |what| Err(format!("it cannot take {what}")))
}

/// Starts this program again for one job and waits for its answer.
fn ask(job: &Job) -> Result<Round> {
    let text = serde_json::to_string(job).map_err(LabError::from_display)?;
    let output = Command::new(std::env::current_exe()?)
        .args([SUBCOMMAND, &text])
        .stdin(Stdio::null())
        .output()?;
    if output.status.success() {
        return serde_json::from_slice(&output.stdout).map_err(LabError::from_display);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.lines().rev().find(|line| !line.trim().is_empty());
    Err(LabError::Process(match last {
        Some(line) => line.trim_start_matches("hedgerow-lab: ").to_owned(),
        None => format!("its process ended: {}", output.status),
    }))
}

/// What the process of a round does: the job given as an argument.
///
/// # Errors
///
/// When the job is none, or the map fails.
pub fn perform(job: &str) -> Result<()> {
    let job: Job = serde_json::from_str(job)
        .map_err(|error| LabError::Usage(format!("not a job of this lab: {error}")))?;
    println!("{}", serde_json::json!(job.perform()?));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn rounds_of_every_map_agree() {
        let directory = tempfile::tempdir().expect("a directory");
        let keys = "path"
            .parse::<KeySet>()
            .expect("a set")
            .keys(3000)
            .expect("keys");
        let file = directory.path().join("keys");
        round::write_keys(&keys, &file).expect("written");
        let job = |map: &str, verify| Job {
            map: map.to_owned(),
            keys: file.clone(),
            count: 2500,
            mix: [0.4, 0.2, 0.15, 0.1, 0.15],
            distribution: "zipf:0.99".to_owned(),
            scan_length: 20,
            verify,
        };
        let mut scanned = Vec::new();
        let registry = Registry::new();
        let fits = |map: &&MapEntry| {
            let promises = &map.entry.promises;
            promises.ordered && promises.variable_keys && map.build.is_ok()
        };
        for map in registry.maps.iter().filter(fits) {
            job(map.entry.name, true).perform().expect(map.entry.name);
            let round = job(map.entry.name, false).perform().expect(map.entry.name);
            assert_eq!(round.single_ns.len(), 3);
            assert!(round.operations >= LEAST_OPERATIONS, "{round:?}");
            scanned.push(round.scanned);
        }
        assert!(scanned.len() > 1 && scanned.iter().all(|pairs| *pairs == scanned[0]));
        let error = job("nobody", false)
            .perform()
            .expect_err("no such map")
            .to_string();
        assert_eq!(error, "no map is called 'nobody'");
    }

    /// A contest of two maps without any time, whose rounds `ask` makes up.
    fn late_contest(ask: fn(&Job) -> Result<Round>) -> Contest {
        let named = |name: &str| Measured {
            name: name.to_owned(),
            rounds: Vec::new(),
        };
        Contest {
            job: Job {
                map: String::new(),
                keys: std::path::PathBuf::new(),
                count: 1000,
                mix: [1.0, 0.0, 0.0, 0.0, 0.0],
                distribution: "uniform".to_owned(),
                scan_length: 1,
                verify: false,
            },
            budget: Duration::ZERO,
            start: Instant::now(),
            ask,
            maps: ["a", "b"].map(named).into(),
        }
    }

    #[test]
    fn without_time_every_map_has_the_first_round_and_none_has_another() {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        let mut contest = late_contest(|_| {
            ASKED.fetch_add(1, Ordering::Relaxed);
            Ok(Round::default())
        });
        assert_eq!(contest.measure(1000), 1);
        assert!(contest.maps.iter().all(|map| map.rounds.len() == 1));
        assert_eq!(ASKED.load(Ordering::Relaxed), 2, "one job for each map");
    }

    #[test]
    fn a_later_round_ends_between_maps_when_the_time_is_used_up() {
        let mut contest = late_contest(|_| Ok(Round::default()));
        assert!(contest.measure_round(false), "the first round is whole");
        assert!(!contest.measure_round(true));
        let rounds: Vec<_> = contest.maps.iter().map(|map| map.rounds.len()).collect();
        assert_eq!(rounds, [1, 1]);
    }

    #[test]
    fn keys_beyond_a_limit_are_a_reason_to_stay_out() {
        let keys: Keys = ["a", "b\0"].iter().collect();
        let text = Limits {
            no_zero_bytes: true,
            ..Limits::NONE
        };
        let why = within(&text, false, &keys).expect_err("a zero byte");
        assert_eq!(why, "it cannot take keys with a zero byte");
        assert_eq!(within(&Limits::NONE, true, &keys), Ok(()));
    }

    #[test]
    fn keys_come_from_files_sets_or_nowhere() {
        assert_eq!(given_keys("monotone-u32", 10).expect("a set").len(), 10);
        let error = given_keys("no-such-file", 10)
            .expect_err("nothing")
            .to_string();
        assert!(
            error.starts_with("there is no file 'no-such-file', and no key set is called"),
            "{error}"
        );
    }
}
