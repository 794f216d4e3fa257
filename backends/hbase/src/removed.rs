//! What a removal of a range replies: HBase removes row by row, and may fail in between.

use hedgerow::{Commit, Error, Result};

/// What a removal of a range has done so far.
#[derive(Default)]
pub(crate) struct Removed {
    /// Rows that lived.
    pub(crate) rows: u64,
    pub(crate) last: Option<Commit>,
}

impl Removed {
    /// What the removal replies. An error behind rows that are gone does not say that nothing was
    /// done.
    pub(crate) fn after(self, outcome: Result<()>) -> Result<(u64, Option<Commit>)> {
        match outcome {
            Ok(()) => Ok((self.rows, self.last)),
            Err(error) if self.last.is_none() => Err(error),
            Err(error) => Err(Error::OutcomeUnknown(
                format!("{} rows were removed, then: {error}", self.rows).into(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_behind_rows_that_are_gone_does_not_say_that_nothing_was_done() {
        let refused = || Err(Error::Backend("no gateway".into()));
        let nothing = Removed::default().after(refused());
        assert!(matches!(nothing, Err(Error::Backend(_))), "{nothing:?}");
        let some = Removed {
            rows: 300,
            last: Some(Commit::NOTHING),
        };
        let text = match some.after(refused()) {
            Err(Error::OutcomeUnknown(text)) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(&*text, "300 rows were removed, then: no gateway");
    }
}
