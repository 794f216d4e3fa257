//! What a backend may lack, by the commands that it then refuses: the one list of them that tests
//! go by. A test asks [`Started::serves`] where a command is beside its point, and the comparisons
//! with Redis leave such commands out. Tests that are about nothing else are in `embedded/`.

use hedgerow::backend::{Backend, Capability};

use super::{Started, Value};

/// Commands, and what a backend needs for them. `MULTI` stands for transactions of several rows,
/// and those that read or change a whole database.
const NEEDS: &[(&str, Capability)] = &[
    ("MULTI", Capability::SeveralRows),
    ("COPY", Capability::SeveralRows),
    ("MOVE", Capability::SeveralRows),
    ("MSETNX", Capability::SeveralRows),
    ("RENAME", Capability::SeveralRows),
    ("RENAMENX", Capability::SeveralRows),
    ("BEGIN", Capability::InteractiveTransactions),
    ("SNAPSHOT", Capability::Snapshots),
    ("WITH", Capability::Snapshots),
    ("SAVE", Capability::Checkpoints),
    ("BGSAVE", Capability::Checkpoints),
    ("BACKUP", Capability::Backups),
    ("RANDOMKEY", Capability::RandomKeys),
];

/// Whether the backend serves a command in all its forms; `command` may have arguments.
pub fn serves(db: &impl Backend, command: &str) -> bool {
    let name = command.split(' ').next().unwrap_or_default();
    let needed = NEEDS.iter().find(|(of, _)| *of == name);
    needed.is_none_or(|(_, capability)| db.lacks(*capability).is_none())
}

/// Whether the backend knows how many rows it has without a walk over them.
pub fn counts_rows(started: &Started) -> bool {
    started.db.lacks(Capability::Counts).is_none()
}

impl Started {
    /// See [`serves`].
    pub fn serves(&self, command: &str) -> bool {
        serves(&*self.db, command)
    }

    /// Checks that a backend refuses, by name, each of the commands that it lacks; how many.
    pub fn refuses_what_it_lacks(&self) -> usize {
        let mut client = self.client();
        client.run("SET kept 1");
        let arguments = |name: &str| match name {
            "COPY" | "RENAME" | "RENAMENX" => "kept other",
            "MOVE" => "kept 1",
            "MSETNX" => "one 1 other 2",
            "WITH" => "token GET kept",
            "BACKUP" => "name",
            _ => "",
        };
        let lacking = NEEDS.iter().filter(|(name, _)| !self.serves(name));
        let mut refused = 0;
        for (name, _) in lacking {
            let reply = match *name {
                "MULTI" => {
                    for line in ["MULTI", "SET kept 2", "SET other 2"] {
                        client.run(line);
                    }
                    client.run("EXEC")
                }
                name => client.run(&format!("{name} {}", arguments(name))),
            };
            let Value::Error(text) = reply else {
                panic!("{name}: {reply:?}");
            };
            assert!(text.starts_with("UNSUPPORTED "), "{name}: {text}");
            refused += 1;
        }
        assert_eq!(client.run("EXISTS other one"), Value::Integer(0));
        refused
    }
}
