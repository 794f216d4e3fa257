//! Who did not take part where, one row for each contender.
//!
//! A contender that cannot hold long keys is left out at every point that has them, and one for
//! which no time was left at many: a row for each place would hide the others.

use hedgerow_lab_report::{Cause, Skipped, X};

use super::plan::Plan;

/// Why a contender has no figure at a point.
#[derive(Debug, Clone)]
pub struct Reason {
    pub point: usize,
    pub contender: String,
    pub cause: Cause,
    pub why: String,
}

/// Reasons with the points at which each holds.
type Whys<'a> = Vec<(&'a str, Vec<usize>)>;

/// The most places that a row names.
const MOST_PLACES: usize = 6;

/// A row for each contender: the gravest cause, and its reasons, each followed by the places where
/// it holds unless it holds wherever the contender would have taken part.
pub fn rows<'a>(plan: &Plan, reasons: impl Iterator<Item = &'a Reason>) -> Vec<Skipped> {
    let mut rows: Vec<(&str, Cause, Whys<'_>)> = Vec::new();
    for reason in reasons {
        let row = rows.iter().position(|(who, ..)| *who == reason.contender);
        let row = row.unwrap_or_else(|| {
            rows.push((&reason.contender, reason.cause, Vec::new()));
            rows.len() - 1
        });
        let (_, cause, whys) = &mut rows[row];
        *cause = (*cause).max(reason.cause);
        match whys.iter_mut().find(|(why, _)| *why == reason.why) {
            Some((_, points)) => points.push(reason.point),
            None => whys.push((&reason.why, vec![reason.point])),
        }
    }
    let rows = rows.into_iter().map(|(contender, cause, whys)| {
        let all = plan.points.iter();
        let all = all.filter(|point| point.contenders.contains(&contender));
        let all = all.count();
        let whys = whys.into_iter().map(|(why, points)| match points.len() {
            everywhere if everywhere >= all => why.to_owned(),
            _ => format!("{why}{}", places(plan, &points)),
        });
        Skipped {
            experiment: plan.about.name.to_owned(),
            contender: contender.to_owned(),
            why: whys.collect::<Vec<_>>().join("; "),
            cause: Some(cause),
        }
    });
    rows.collect()
}

/// Where these points are, in words to follow a reason.
fn places(plan: &Plan, points: &[usize]) -> String {
    let mut named: Vec<String> = Vec::new();
    for &point in points {
        let place = place(plan, point);
        if !place.is_empty() && !named.contains(&place) {
            named.push(place);
        }
    }
    let more = named.len().saturating_sub(MOST_PLACES);
    named.truncate(MOST_PLACES);
    match (named.is_empty(), more) {
        (true, _) => String::new(),
        (_, 0) => format!(" (at {})", named.join("; ")),
        (_, more) => format!(" (at {}; and {more} more)", named.join("; ")),
    }
}

/// Where a point is: its position on the axis, and the parameters that not all points share.
fn place(plan: &Plan, point: usize) -> String {
    let own = &plan.points[point];
    let x = own.x.iter().map(|x| match x {
        X::Number(number) => match plan.about.x_label {
            Some(label) => format!("{label} {number}"),
            None => number.to_string(),
        },
        X::Category(name) => name.clone(),
    });
    let parameters = own.parameters.iter().filter(|(name, value)| {
        let mut others = plan.points.iter();
        others.any(|other| other.parameters.get(*name) != Some(value))
    });
    let parameters = parameters.map(|(name, value)| {
        let value = value.as_str().map_or(value.to_string(), str::to_owned);
        format!("{name} {value}")
    });
    x.chain(parameters).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Need, Point, Settings};
    use crate::experiments;
    use crate::registry::Registry;
    use crate::runner::wanted::Wanted;

    /// Three points: at two sets of keys of equal number, and at one of another.
    fn plan() -> Plan {
        let experiment = experiments::find("btrees/fig15").expect("it is there");
        let settings = Settings::smoke(1);
        let registry = Registry::new();
        let mut plan =
            Plan::new(&*experiment, &registry, &settings, &Wanted::default()).expect("a plan");
        let point = |set: &str, operation: &str| Point {
            parameters: [
                ("operation".to_owned(), operation.into()),
                ("keys".to_owned(), 10.into()),
            ]
            .into(),
            x: Some(X::Category(set.to_owned())),
            contenders: vec!["blart", "scc"],
            need: Need::default(),
            workload: ().into(),
            verified_by: ().into(),
        };
        plan.points = vec![
            point("dense", "a"),
            point("dense", "b"),
            point("paths", "b"),
        ];
        plan
    }

    #[test]
    fn a_contender_is_one_row_with_its_points() {
        let reason = |point, contender: &str, why: &str| Reason {
            point,
            contender: contender.to_owned(),
            cause: match why {
                "zero bytes" => Cause::Limits,
                "too long" => Cause::Failure,
                _ => Cause::Time,
            },
            why: why.to_owned(),
        };
        let reasons = [
            reason(0, "blart", "zero bytes"),
            reason(0, "scc", "no time"),
            reason(2, "blart", "too long"),
            reason(1, "blart", "zero bytes"),
            reason(1, "scc", "no time"),
            reason(2, "scc", "no time"),
        ];
        let rows = rows(&plan(), reasons.iter());
        let row = |contender: &str| {
            let mut rows = rows.iter().filter(|row| row.contender == contender);
            let row = rows.next().expect("a row");
            assert!(rows.next().is_none(), "one row");
            (row.why.as_str(), row.cause)
        };
        let why = "zero bytes (at dense, operation a; dense, operation b); too long (at paths, \
                   operation b)";
        assert_eq!(row("blart"), (why, Some(Cause::Failure)));
        assert_eq!(row("scc"), ("no time", Some(Cause::Time)));
    }

    #[test]
    fn many_places_are_counted() {
        let mut plan = plan();
        plan.points = (0..10)
            .map(|n| Point {
                x: Some(X::Number(f64::from(n))),
                ..plan.points[0].clone()
            })
            .collect();
        plan.about.x_label = Some("density in %");
        let text = places(&plan, &[1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(
            text.starts_with(" (at density in % 1; density in % 2;"),
            "{text}"
        );
        assert!(text.ends_with("density in % 6; and 2 more)"), "{text}");
    }
}
