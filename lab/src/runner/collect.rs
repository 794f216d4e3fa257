//! What the processes answered, and what it comes to.

use std::collections::HashSet;

use hedgerow_lab_report::{
    Figure, Layout, Measured, Record, Round, Skipped, X, figures, significant,
};

use super::plan::Plan;
use super::skipped::{Reason, rows};
use crate::experiment::Answer;
use crate::{LabError, Result};

/// All answers of an experiment.
pub struct Collected<'a> {
    plan: &'a Plan,
    answers: Vec<Round>,
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
                unfit: Some(why), ..
            }) => self.failed(point, contender, LabError::Unavailable(why)),
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
                unfit: Some(why), ..
            }) => Err(LabError::Unavailable(why)),
            answer => answer,
        };
        let answer = match answer {
            Ok(answer) => answer,
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
        self.answers.extend(rounds.iter().cloned());
        self.layouts.extend(layout.clone());
        let layout = layout.map(Record::Layout);
        rounds
            .into_iter()
            .map(Record::Round)
            .chain(layout)
            .collect()
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
            LabError::Unavailable(why) => self.unfit.push(Reason {
                point,
                contender: contender.to_owned(),
                why,
            }),
            error => self.fail(point, contender, error.to_string()),
        }
    }

    fn fail(&mut self, point: usize, contender: &str, why: String) {
        self.failures.push(Reason {
            point,
            contender: contender.to_owned(),
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
        figures(
            &self.answers,
            self.plan.about.baseline,
            self.plan.about.compared_to,
        )
    }
}
