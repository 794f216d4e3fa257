//! What the processes answered, and what it comes to.

use hedgerow_lab_report::{Better, Figure, Skipped};

use super::plan::Plan;
use crate::experiment::Answer;
use crate::rounds::Rounds;
use crate::{LabError, Result};

/// One contender at one point.
#[derive(Default)]
struct Cell {
    contender: &'static str,
    /// One answer per round; none where the contender was not asked or failed.
    answers: Vec<Option<Answer>>,
}

/// A contender that answered wrongly or ended.
#[derive(Debug, Clone)]
pub struct Failure {
    pub point: usize,
    pub contender: String,
    pub why: String,
}

/// All answers of an experiment.
pub struct Collected {
    /// By point, in the order of its contenders.
    cells: Vec<Vec<Cell>>,
    pub failures: Vec<Failure>,
    /// Contenders that cannot take part at a point, as failures that are nobody's fault.
    unfit: Vec<Failure>,
    /// Rounds that were begun.
    pub rounds: u32,
}

impl Collected {
    pub fn new(plan: &Plan) -> Self {
        let cell = |contender: &&'static str| Cell {
            contender,
            answers: Vec::new(),
        };
        let points = plan.points.iter();
        let cells = points.map(|point| point.contenders.iter().map(cell).collect());
        Self {
            cells: cells.collect(),
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
                list.extend(also.iter().map(|&point| Failure {
                    point,
                    ..failure.clone()
                }));
            }
        }
    }

    /// Notes a round.
    pub fn measured(&mut self, point: usize, contender: &str, answer: Result<Answer>) {
        let answer = match answer {
            Ok(answer) => {
                if answer.errors > 0 {
                    let why = format!("{} operations failed", answer.errors);
                    self.fail(point, contender, why);
                }
                Some(answer)
            }
            Err(error) => {
                self.failed(point, contender, error);
                None
            }
        };
        let round = self.rounds as usize;
        if let Some(cell) = self.cells[point]
            .iter_mut()
            .find(|cell| cell.contender == contender)
        {
            cell.answers.resize(round, None);
            cell.answers.push(answer);
        }
    }

    fn failed(&mut self, point: usize, contender: &str, error: LabError) {
        match error {
            LabError::Unavailable(why) => self.unfit.push(Failure {
                point,
                contender: contender.to_owned(),
                why,
            }),
            error => self.fail(point, contender, error.to_string()),
        }
    }

    fn fail(&mut self, point: usize, contender: &str, why: String) {
        self.failures.push(Failure {
            point,
            contender: contender.to_owned(),
            why,
        });
    }

    /// Contenders that failed, and those for whom no time was left, as skipped rows.
    pub fn skipped(&self, plan: &Plan) -> Vec<Skipped> {
        let row = |contender: &str, why: String| Skipped {
            experiment: plan.about.name.to_owned(),
            contender: contender.to_owned(),
            why,
        };
        let failures = self.failures.iter().chain(&self.unfit).map(|failure| {
            let place = plan.points[failure.point].place();
            row(&failure.contender, format!("{}{place}", failure.why))
        });
        let late = self.cells.iter().enumerate().flat_map(|(point, cells)| {
            let unasked = cells.iter().filter(move |cell| {
                cell.answers.iter().all(Option::is_none) && !self.is_out(point, cell.contender)
            });
            unasked.map(move |cell| {
                let place = plan.points[point].place();
                row(
                    cell.contender,
                    format!("the time budget was used up{place}"),
                )
            })
        });
        failures.chain(late).collect()
    }

    /// All figures: medians, spread, and ratios to the baseline of the same round.
    pub fn figures(&self, plan: &Plan) -> Vec<Figure> {
        let mut figures = Vec::new();
        for (point, cells) in plan.points.iter().zip(&self.cells) {
            let baseline = cells
                .iter()
                .find(|cell| cell.contender == plan.about.baseline);
            for cell in cells {
                for (column, unit, better) in cell.columns() {
                    let rounds = cell.rounds(&column);
                    let errors: u64 = cell.answers.iter().flatten().map(|a| a.errors).sum();
                    let right = (errors == 0 && !rounds.is_empty()).then_some(&rounds);
                    let ratio = baseline
                        .filter(|_| errors == 0)
                        .and_then(|baseline| cell.ratio(baseline, &column));
                    figures.push(Figure {
                        experiment: plan.about.name.to_owned(),
                        parameters: point.parameters.clone(),
                        x: point.x.clone(),
                        contender: cell.contender.to_owned(),
                        unit,
                        better,
                        median: right.map(|rounds| significant(rounds.median())),
                        min: right.map(|rounds| significant(rounds.min())),
                        max: right.map(|rounds| significant(rounds.max())),
                        rounds: rounds.figures().iter().map(|f| significant(*f)).collect(),
                        ratio: ratio.map(significant),
                        errors,
                        column,
                    });
                }
            }
        }
        figures
    }
}

impl Cell {
    /// The columns of the first answer, in its order.
    fn columns(&self) -> Vec<(String, String, Better)> {
        let first = self.answers.iter().flatten().next();
        let figures = first.into_iter().flat_map(|answer| &answer.figures);
        figures
            .map(|m| (m.column.clone(), m.unit.clone(), m.better))
            .collect()
    }

    fn figure(&self, round: usize, column: &str) -> Option<f64> {
        let answer = self.answers.get(round)?.as_ref()?;
        let mut figures = answer.figures.iter();
        figures
            .find(|figure| figure.column == column)
            .map(|figure| figure.figure)
    }

    fn rounds(&self, column: &str) -> Rounds {
        let mut rounds = Rounds::default();
        for round in 0..self.answers.len() {
            if let Some(figure) = self.figure(round, column) {
                rounds.push(figure);
            }
        }
        rounds
    }

    /// The median over rounds of the ratio to the baseline's figure of the same round.
    fn ratio(&self, baseline: &Self, column: &str) -> Option<f64> {
        let mut ratios = Rounds::default();
        for round in 0..self.answers.len() {
            let figures = (self.figure(round, column), baseline.figure(round, column));
            if let (Some(own), Some(other)) = figures
                && other != 0.0
            {
                ratios.push(own / other);
            }
        }
        (!ratios.is_empty()).then(|| ratios.median())
    }
}

/// Five significant digits: more would be noise.
fn significant(figure: f64) -> f64 {
    if figure == 0.0 || !figure.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powf(4.0 - figure.abs().log10().floor());
    (figure * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(contender: &'static str, figures: &[Option<f64>]) -> Cell {
        let answers = figures.iter().map(|figure| {
            figure.map(|figure| {
                let mut answer = Answer::default();
                answer.push("get", "ns", Better::Lower, figure);
                answer
            })
        });
        Cell {
            contender,
            answers: answers.collect(),
        }
    }

    #[test]
    fn ratios_are_paired_by_round() {
        let baseline = cell("a", &[Some(1.0), Some(10.0), None, Some(100.0)]);
        let other = cell("b", &[Some(2.0), Some(20.0), Some(1.0), Some(300.0)]);
        assert_eq!(other.ratio(&baseline, "get"), Some(2.0));
        assert_eq!(other.ratio(&baseline, "put"), None);
        assert_eq!(other.rounds("get").median(), 11.0);
    }

    #[test]
    fn figures_keep_five_digits() {
        assert_eq!(significant(123_456.7), 123_460.0);
        assert_eq!(significant(0.001_234_567), 0.001_234_6);
        assert_eq!(significant(0.0), 0.0);
    }
}
