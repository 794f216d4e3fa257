//! What the processes answered, and what it comes to.

use std::collections::HashSet;

use hedgerow_lab_report::{
    Cause, Figure, Layout, Measured, Record, Round, Skipped, X, figures, significant,
};

use super::plan::Plan;
use super::skipped::{Reason, rows};
use crate::experiment::{Answer, Unfit};
use crate::{LabError, Result};

/// A round at a point of the plan. Rows of an answer have places of their own on the axis.
struct Answered {
    point: usize,
    round: Round,
}

/// All answers of an experiment.
pub struct Collected<'a> {
    plan: &'a Plan,
    answers: Vec<Answered>,
    /// How nodes lay in memory, of the first round in which a contender's were looked at.
    layouts: Vec<Layout>,
    /// The points and contenders of these.
    answered: HashSet<(usize, &'static str)>,
    /// Contenders that answered wrongly or ended.
    pub failures: Vec<Reason>,
    /// Contenders that cannot take part at a point, which is nobody's fault.
    unfit: Vec<Reason>,
    /// Rounds that were begun.
    pub rounds: u32,
}

impl<'a> Collected<'a> {
    pub fn new(plan: &'a Plan) -> Self {
        Self {
            plan,
            answers: Vec::new(),
            layouts: Vec::new(),
            answered: HashSet::new(),
            failures: Vec::new(),
            unfit: Vec::new(),
            rounds: 0,
        }
    }

    /// Whether a contender is out at a point.
    pub fn is_out(&self, point: usize, contender: &str) -> bool {
        let mut failures = self.failures.iter().chain(&self.unfit);
        failures.any(|failure| failure.point == point && failure.contender == contender)
    }

    /// Notes a verification at one point, which stands for others, too.
    pub fn verified(
        &mut self,
        point: usize,
        also: &[usize],
        contender: &str,
        answer: Result<Answer>,
    ) {
        let (failures, unfit) = (self.failures.len(), self.unfit.len());
        match answer {
            Ok(Answer {
                unfit: Some(unfit), ..
            }) => self.leave_out(point, contender, unfit),
            Ok(answer) if answer.errors == 0 => {}
            Ok(answer) => self.fail(point, contender, format!("{} wrong answers", answer.errors)),
            Err(error) => self.failed(point, contender, error),
        }
        for (list, before) in [(&mut self.failures, failures), (&mut self.unfit, unfit)] {
            if let Some(failure) = list.get(before).cloned() {
                list.extend(also.iter().map(|&point| Reason {
                    point,
                    ..failure.clone()
                }));
            }
        }
    }

    /// Notes a contender's answer of the round that is under way; what of it is to be kept.
    pub fn measured(
        &mut self,
        point: usize,
        contender: &'static str,
        answer: Result<Answer>,
    ) -> Vec<Record> {
        let answer = match answer {
            Ok(Answer {
                unfit: Some(unfit), ..
            }) => {
                self.leave_out(point, contender, unfit);
                return Vec::new();
            }
            Ok(answer) => answer,
            Err(error @ LabError::WrongAnswer(_)) => {
                self.failed(point, contender, error);
                return vec![Record::Round(self.answered_wrongly(point, contender))];
            }
            Err(error) => {
                self.failed(point, contender, error);
                return Vec::new();
            }
        };
        if answer.errors > 0 {
            let why = format!("{} operations failed", answer.errors);
            self.fail(point, contender, why);
        }
        let rows: Vec<Round> = answer
            .rows
            .into_iter()
            .map(|row| Round {
                x: Some(X::Category(row.place)),
                ..self.round(point, contender, row.figures, 0)
            })
            .collect();
        let layout = answer
            .layout
            .filter(|_| !self.answered.contains(&(point, contender)));
        self.answered.insert((point, contender));
        let round = self.round(point, contender, answer.figures, answer.errors);
        let layout = layout.map(|inspected| Layout {
            experiment: round.experiment.clone(),
            parameters: round.parameters.clone(),
            x: round.x.clone(),
            contender: round.contender.clone(),
            inspected,
        });
        // Who has only rows has no figure at the point itself.
        let alone = rows.is_empty() || !round.figures.is_empty();
        let rounds: Vec<Round> = rows.into_iter().chain(alone.then_some(round)).collect();
        self.answers.extend(rounds.iter().map(|round| Answered {
            point,
            round: round.clone(),
        }));
        self.layouts.extend(layout.clone());
        let layout = layout.map(Record::Layout);
        rounds
            .into_iter()
            .map(Record::Round)
            .chain(layout)
            .collect()
    }

    /// Takes away the figures that a contender had at a point until it answered wrongly; the round
    /// that does so, which has an error and no figure.
    fn answered_wrongly(&mut self, point: usize, contender: &str) -> Round {
        self.answers
            .retain(|answer| answer.point != point || answer.round.contender != contender);
        let round = self.round(point, contender, Vec::new(), 1);
        self.answers.push(Answered {
            point,
            round: round.clone(),
        });
        round
    }

    /// The round that is under way, of one contender at a point.
    fn round(
        &self,
        point: usize,
        contender: &str,
        mut figures: Vec<Measured>,
        errors: u64,
    ) -> Round {
        for figure in &mut figures {
            figure.figure = significant(figure.figure);
        }
        Round {
            experiment: self.plan.about.name.to_owned(),
            round: self.rounds,
            parameters: self.plan.points[point].parameters.clone(),
            x: self.plan.points[point].x.clone(),
            contender: contender.to_owned(),
            figures,
            errors,
        }
    }

    fn failed(&mut self, point: usize, contender: &str, error: LabError) {
        match error {
            // It has no such operation to be counted.
            LabError::Unavailable(why) => {
                let cause = Cause::Limits;
                self.leave_out(point, contender, Unfit { cause, why });
            }
            error => self.fail(point, contender, error.to_string()),
        }
    }

    fn leave_out(&mut self, point: usize, contender: &str, Unfit { cause, why }: Unfit) {
        self.unfit.push(Reason {
            point,
            contender: contender.to_owned(),
            cause,
            why,
        });
    }

    fn fail(&mut self, point: usize, contender: &str, why: String) {
        self.failures.push(Reason {
            point,
            contender: contender.to_owned(),
            cause: Cause::Failure,
            why,
        });
    }

    /// Contenders that failed, and those for whom no time was left, a row for each.
    pub fn skipped(&self) -> Vec<Skipped> {
        let mut late = Vec::new();
        for (index, point) in self.plan.points.iter().enumerate() {
            for contender in &point.contenders {
                if !self.answered.contains(&(index, contender)) && !self.is_out(index, contender) {
                    late.push(Reason {
                        point: index,
                        contender: (*contender).to_owned(),
                        cause: Cause::Time,
                        why: "the time budget was used up".to_owned(),
                    });
                }
            }
        }
        let reasons = self.failures.iter().chain(&self.unfit).chain(&late);
        rows(self.plan, reasons)
    }

    /// How nodes lay in memory.
    pub fn layouts(&self) -> &[Layout] {
        &self.layouts
    }

    /// All figures: medians, spread, and ratios to the baseline of the same round.
    pub fn figures(&self) -> Vec<Figure> {
        let answers = self.answers.iter().map(|answer| answer.round.clone());
        figures(
            &answers.collect::<Vec<_>>(),
            self.plan.about.baseline,
            self.plan.about.compared_to,
        )
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_lab_report::Better;

    use super::*;
    use crate::runner::plan::example;

    fn answer(figure: f64) -> Result<Answer> {
        let mut answer = Answer::default();
        answer.push("get", "Mops/s", Better::Higher, figure);
        Ok(answer)
    }

    /// Neither the run's own figures have it, nor those of a file that was cut.
    #[test]
    fn who_answers_wrongly_in_a_later_round_has_no_figure_from_earlier_ones() {
        let mut plan = example(None);
        plan.points[2].x = Some(X::Number(2.0));
        let mut collected = Collected::new(&plan);
        let mut lines = Vec::new();
        for contender in ["a", "b"] {
            lines.extend(collected.measured(0, contender, answer(2.0)));
            lines.extend(collected.measured(2, contender, answer(3.0)));
        }
        collected.rounds = 1;
        let wrong = LabError::of_process(Some(3), "a key is gone".to_owned());
        lines.extend(collected.measured(0, "b", Err(wrong)));
        lines.extend(collected.measured(0, "a", answer(2.0)));
        assert!(collected.is_out(0, "b"));
        let rounds = lines.into_iter().filter_map(|line| match line {
            Record::Round(round) => Some(round),
            _ => None,
        });
        let cut = figures(&rounds.collect::<Vec<_>>(), "a", None);
        for (figures, has_column) in [(collected.figures(), false), (cut, true)] {
            let of = |name: &str| {
                let own = figures.iter().filter(|figure| figure.contender == name);
                own.map(|figure| figure.median).collect::<Vec<_>>()
            };
            assert_eq!(of("a"), [Some(2.0), Some(3.0)]);
            let at_first = has_column.then_some(None);
            let right: Vec<_> = at_first.into_iter().chain([Some(3.0)]).collect();
            assert_eq!(of("b"), right);
        }
    }

    /// A contender that was killed keeps what it did before.
    #[test]
    fn who_does_not_fit_in_a_later_round_keeps_its_figures() {
        let plan = example(None);
        let mut collected = Collected::new(&plan);
        collected.measured(0, "b", answer(2.0));
        collected.rounds = 1;
        let killed = Answer::of_unfit(Cause::Memory, "it was killed".to_owned());
        assert!(collected.measured(0, "b", Ok(killed)).is_empty());
        assert_eq!(collected.figures()[0].median, Some(2.0));
        let mut skipped = collected.skipped();
        skipped.sort_by(|one, other| one.contender.cmp(&other.contender));
        let causes: Vec<_> = skipped.iter().map(|row| row.cause).collect();
        // Two are without a round; b's second place is as well, and its gravest cause counts.
        assert_eq!(causes, [Some(Cause::Time); 3]);
    }
}
