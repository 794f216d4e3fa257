//! The layout as text.

use std::fmt;

use super::Layout;
use super::children::Nearness;
use super::lines::Neighbours;
use super::sets::SetUse;
use super::share::share;

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kinds_and_pages(f)?;
        self.strides(f)?;
        self.sets(f)?;
        self.written(f)?;
        self.collocation(f)?;
        writeln!(f, "\nlines beside a kind's lines, in percent of them")?;
        self.neighbours.table(f)?;
        writeln!(f, "\nthe other line of the pair, in percent")?;
        self.pairs.table(f)
    }
}

impl Layout {
    fn kinds_and_pages(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<24} {:>10} {:>11} {:>9} {:>9} {:>7} {:>7} {:>8} {:>6}",
            "kind", "nodes", "bytes each", "crossing", "4K pages", "dense", "runs", "longest", "2M"
        )?;
        for kind in &self.kinds {
            let each = match kind.least_bytes == kind.most_bytes {
                true => kind.most_bytes.to_string(),
                false => format!("{}-{}", kind.least_bytes, kind.most_bytes),
            };
            writeln!(
                f,
                "{:<24} {:>10} {:>11} {:>9} {:>9} {:>7} {:>7} {:>8} {:>6}",
                kind.kind,
                kind.nodes,
                each,
                percent(kind.crossing_share()),
                kind.pages.pages,
                percent(kind.pages.density()),
                kind.pages.runs.len(),
                kind.pages.longest_run(),
                kind.pages.superpages
            )?;
        }
        writeln!(
            f,
            "{:<24} {:>42} {:>7} {:>7} {:>8} {:>6}",
            "all",
            self.whole.pages,
            percent(self.whole.density()),
            self.whole.runs.len(),
            self.whole.longest_run(),
            self.whole.superpages
        )
    }

    fn strides(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nbytes from one node to the next of its kind")?;
        for kind in &self.kinds {
            let strides = &kind.strides;
            let common: usize = strides.common.iter().map(|&(_, count)| count).sum();
            let all = common + strides.others;
            write!(f, "{:<24}", kind.kind)?;
            for &(bytes, count) in strides.common.iter().take(6) {
                write!(f, " {bytes}: {}", percent(share(count, all)))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn sets(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\ncache sets without a node (lines of the fullest set ÷ average)"
        )?;
        for kind in &self.kinds {
            write!(f, "{:<24}", kind.kind)?;
            for sets in &kind.sets {
                write!(f, " {sets}")?;
            }
            writeln!(f)?;
        }
        match &self.no_physical {
            Some(why) => writeln!(f, "by virtual addresses alone: {why}"),
            None => Ok(()),
        }
    }

    fn written(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nlines with fields that updates write, of several nodes"
        )?;
        for kind in &self.kinds {
            let written = &kind.written;
            let lines = percent(written.shared_share());
            let pairs = percent(share(written.shared_pairs, written.pairs));
            writeln!(f, "{:<24} lines {lines}, pairs of lines {pairs}", kind.kind)?;
        }
        Ok(())
    }

    fn collocation(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\nparents by their nearest child: same line, pair, next line (parent odd), page, 2 MiB"
        )?;
        for found in &self.children {
            let at = |nearness| percent(found.share_of_parents(nearness));
            let next = found.parents[Nearness::NextLine as usize];
            writeln!(
                f,
                "{:<24} {:<24} {:>6} {:>6} {:>6} ({}) {:>6} {:>6}",
                found.parent,
                found.child,
                at(Nearness::SameLine),
                at(Nearness::SamePair),
                at(Nearness::NextLine),
                percent(share(found.odd_parents, next)),
                at(Nearness::SamePage),
                at(Nearness::SameSuperpage)
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for SetUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let physical = if self.physical { " physical" } else { "" };
        let unused = percent(self.unused_share());
        let (level, crowding) = (self.level, self.crowding());
        write!(f, "L{level}{physical} {unused} ({crowding:.1})")
    }
}

impl Neighbours {
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<24}", "")?;
        for kind in &self.kinds {
            write!(f, " {kind:>14.14}")?;
        }
        writeln!(f, " {:>14}", "no node")?;
        for (nth, kind) in self.kinds.iter().enumerate() {
            write!(f, "{kind:<24}")?;
            for count in self.counts[nth].iter().chain([&self.nothing[nth]]) {
                write!(f, " {:>14}", percent(share(*count, self.all[nth])))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}
