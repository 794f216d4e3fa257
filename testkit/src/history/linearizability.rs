//! Per-key linearizability: does some order of one register's operations explain every answer?
//!
//! Wing and Gong's search in the just-in-time form of Lowe ("Testing for linearizability",
//! 2017): walk the calls and returns in time order and carry the set of *configurations* that
//! are still possible, each being a register state plus the set of running operations that have
//! already taken effect. Only when an operation returns must it have taken effect: then the
//! running operations are tried in every order that lets it. Operations that change nothing
//! wherever their answer is right take effect as soon as they can, which loses no order and keeps
//! the set small. (A write that changes nothing now may change something later.) Keys are
//! independent, so each is checked alone (linearizability is local).
//!
//! Two operations are ordered only when one returned strictly before the other was called:
//! equal timestamps count as overlapping, so a coarse clock can hide a violation but never
//! invent one.

use std::collections::HashSet;

use super::operation::{Action, Operation, Violation};

type State = Option<u64>;

/// A possible world: the register's state and which running operations have taken effect,
/// one bit per slot.
type Configuration = (State, u64);

/// Operations that may run at once (or have never returned) on one key.
const SLOTS: usize = 64;

/// The state after `action` took effect in `state`, or `None` if its answer is wrong there.
fn apply(state: State, action: Action) -> Option<State> {
    match action {
        Action::Get { found } => (state == found).then_some(state),
        Action::Put { value } => Some(Some(value)),
        Action::Remove { existed } => existed
            .is_none_or(|existed| existed == state.is_some())
            .then_some(None),
        Action::Update { found, new } => (state == found).then_some(new),
        Action::CompareAndSwap {
            expected,
            new,
            succeeded,
        } => {
            let matches = state == expected;
            succeeded
                .is_none_or(|succeeded| succeeded == matches)
                .then_some(if matches { new } else { state })
        }
    }
}

/// Whether an action changes nothing in any state in which its answer is right.
fn only_reads(action: Action) -> bool {
    match action {
        Action::Get { .. } => true,
        Action::Put { .. } => false,
        Action::Remove { existed } => existed == Some(false),
        Action::Update { found, new } => found == new,
        Action::CompareAndSwap {
            expected,
            new,
            succeeded,
        } => succeeded == Some(false) || expected == new,
    }
}

/// Checks the operations of one key against a register that starts as `initial`.
///
/// Fails with the first operation that no order can explain. Histories in which more than 64
/// operations overlap are refused as too wide rather than searched forever.
pub fn check_key(initial: State, mut operations: Vec<Operation>) -> Result<(), Violation> {
    // An unanswered read constrains nothing.
    operations.retain(|op| op.returned_ns.is_some() || !matches!(op.action, Action::Get { .. }));
    operations.sort_by_key(|op| op.called_ns);
    let mut returns: Vec<usize> = (0..operations.len())
        .filter(|&i| operations[i].returned_ns.is_some())
        .collect();
    returns.sort_by_key(|&i| operations[i].returned_ns);

    let mut search = Search::new(initial);
    let mut next_call = 0;
    for &returning in &returns {
        let returned_ns = operations[returning]
            .returned_ns
            .expect("only answered operations");
        while next_call < operations.len() && operations[next_call].called_ns <= returned_ns {
            search.call(next_call, operations[next_call].action)?;
            next_call += 1;
        }
        search
            .complete(returning)
            .map_err(|()| explain(&operations, returning, &search))?;
    }
    Ok(())
}

struct Search {
    possible: HashSet<Configuration>,
    /// Running operations: number in the history and action.
    slots: [Option<(usize, Action)>; SLOTS],
    /// States possible before the last completion, for the message.
    before: HashSet<Configuration>,
}

impl Search {
    fn new(initial: State) -> Self {
        Search {
            possible: HashSet::from([(initial, 0)]),
            slots: [None; SLOTS],
            before: HashSet::new(),
        }
    }

    fn call(&mut self, number: usize, action: Action) -> Result<(), Violation> {
        let Some(free) = self.slots.iter().position(Option::is_none) else {
            return Err(Violation(format!(
                "more than {SLOTS} operations overlap: too wide to check; spread the workload"
            )));
        };
        self.slots[free] = Some((number, action));
        Ok(())
    }

    /// Keeps the worlds in which operation `number` takes effect now at the latest.
    fn complete(&mut self, number: usize) -> Result<(), ()> {
        let slot = self
            .slots
            .iter()
            .position(|slot| slot.is_some_and(|(running, _)| running == number))
            .expect("an operation is called before it returns");
        let bit = 1u64 << slot;
        let mut frontier: Vec<Configuration> = Vec::with_capacity(self.possible.len());
        let mut seen = HashSet::new();
        for &world in &self.possible {
            let world = self.apply_reads(world);
            if seen.insert(world) {
                frontier.push(world);
            }
        }
        let mut next = HashSet::new();
        while let Some((state, done)) = frontier.pop() {
            if done & bit != 0 {
                next.insert((state, done & !bit));
                continue;
            }
            for (i, running) in self.slots.iter().enumerate() {
                let Some((_, action)) = running else { continue };
                if done & (1 << i) != 0 {
                    continue;
                }
                if let Some(after) = apply(state, *action) {
                    let world = self.apply_reads((after, done | 1 << i));
                    if seen.insert(world) {
                        frontier.push(world);
                    }
                }
            }
        }
        self.before = std::mem::replace(&mut self.possible, next);
        if self.possible.is_empty() {
            return Err(());
        }
        self.slots[slot] = None;
        Ok(())
    }

    /// Lets every running operation take effect that is right here and [only reads](only_reads).
    fn apply_reads(&self, configuration: Configuration) -> Configuration {
        let (state, mut done) = configuration;
        for (i, running) in self.slots.iter().enumerate() {
            if let Some((_, action)) = running
                && only_reads(*action)
                && apply(state, *action).is_some()
            {
                done |= 1 << i;
            }
        }
        (state, done)
    }
}

fn explain(operations: &[Operation], culprit: usize, search: &Search) -> Violation {
    let culprit_op = &operations[culprit];
    let mut states: Vec<State> = search.before.iter().map(|(state, _)| *state).collect();
    states.sort_unstable();
    states.dedup();
    let running: Vec<&Operation> = search
        .slots
        .iter()
        .flatten()
        .map(|(number, _)| &operations[*number])
        .collect();
    let returned = culprit_op
        .returned_ns
        .expect("only answered operations are completed");
    let mut before: Vec<&Operation> = operations
        .iter()
        .filter(|op| op.returned_ns.is_some_and(|at| at < returned))
        .collect();
    before.sort_by_key(|op| op.returned_ns);
    let before = &before[before.len().saturating_sub(8)..];
    let line = |op: &&Operation| {
        let (thread, action) = (op.thread, op.action);
        format!(
            "  {} to {:?} ns: thread {thread} {action:?}",
            op.called_ns, op.returned_ns
        )
    };
    let lines =
        |operations: &[&Operation]| operations.iter().map(line).collect::<Vec<_>>().join("\n");
    Violation(format!(
        "not linearizable: thread {} got {:?} between {} and {returned} ns, but the register \
         could only hold {states:?}\nrunning at that time:\n{}\ncompleted last before:\n{}",
        culprit_op.thread,
        culprit_op.action,
        culprit_op.called_ns,
        lines(&running),
        lines(before),
    ))
}
