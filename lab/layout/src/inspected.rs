//! What the inspector found, as results keep it: tables, and pages for pictures.

use hedgerow_lab_report::{
    Inspected, LayoutColumn, LayoutRow, LayoutTable, MOST_PAGES, PageMap, PageRun,
};
use hedgerow_memory::layout::{KindLayout, Layout, Nearness, PageUse, SetUse};

/// Distances that a table names for each kind.
const STRIDES: usize = 6;

/// A layout as results keep it: some rows a kind, a cell for each two kinds, and at most
/// [`MOST_PAGES`] + 1 runs of pages a kind, each some 30 bytes of a results file.
#[must_use]
pub fn inspected(layout: &Layout) -> Inspected {
    Inspected {
        tables: vec![
            kinds(layout),
            pages(layout),
            strides(layout),
            sets(layout),
            written(layout),
            beside_written(layout),
            children(layout),
            neighbours(
                "Lines beside a kind's lines, by what they hold",
                layout,
                |layout| &layout.neighbours,
            ),
            neighbours(
                "The other line of the pair, by what it holds",
                layout,
                |layout| &layout.pairs,
            ),
        ],
        pages: layout.kinds.iter().map(page_map).collect(),
    }
}

fn percent(title: &str) -> LayoutColumn {
    LayoutColumn {
        title: title.to_owned(),
        unit: "%".to_owned(),
    }
}

fn count(title: &str) -> LayoutColumn {
    LayoutColumn {
        title: title.to_owned(),
        unit: String::new(),
    }
}

/// A table whose rows are added later.
fn table(title: &str, heads: &[&str], columns: Vec<LayoutColumn>) -> LayoutTable {
    LayoutTable {
        title: title.to_owned(),
        note: None,
        heads: heads.iter().map(|&head| head.to_owned()).collect(),
        columns,
        rows: Vec::new(),
    }
}

fn row(names: &[&str], figures: Vec<f64>) -> LayoutRow {
    LayoutRow {
        names: names.iter().map(|&name| name.to_owned()).collect(),
        figures,
    }
}

/// A part of a whole in percent; 0 of nothing.
fn share(part: usize, whole: usize) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

fn kinds(layout: &Layout) -> LayoutTable {
    let columns = vec![
        count("nodes"),
        count("bytes, least"),
        count("bytes, most"),
        percent("search fields across lines"),
    ];
    let mut table = table("Nodes", &["kind"], columns);
    table.rows.extend(layout.kinds.iter().map(|kind| {
        let figures = vec![
            kind.nodes as f64,
            kind.least_bytes as f64,
            kind.most_bytes as f64,
            kind.crossing_share() * 100.0,
        ];
        row(&[kind.kind], figures)
    }));
    table
}

fn pages(layout: &Layout) -> LayoutTable {
    let columns = vec![
        count("pages of 4 KiB"),
        percent("of them nodes"),
        count("runs"),
        count("longest run"),
        count("pages of 2 MiB"),
    ];
    let mut table = table("Pages that nodes touch", &["kind"], columns);
    let figures = |pages: &PageUse| {
        vec![
            pages.pages as f64,
            pages.density() * 100.0,
            pages.runs.len() as f64,
            pages.longest_run() as f64,
            pages.superpages as f64,
        ]
    };
    let kinds = layout.kinds.iter();
    table
        .rows
        .extend(kinds.map(|kind| row(&[kind.kind], figures(&kind.pages))));
    table.rows.push(row(&["all"], figures(&layout.whole)));
    table
}

fn strides(layout: &Layout) -> LayoutTable {
    let columns = vec![count("bytes"), percent("of distances")];
    let title = "Distances from one node to the next of its kind";
    let mut table = table(title, &["kind"], columns);
    for kind in &layout.kinds {
        let common: usize = kind.strides.common.iter().map(|&(_, count)| count).sum();
        let all = common + kind.strides.others;
        let named = kind.strides.common.iter().take(STRIDES);
        table.rows.extend(
            named.map(|&(bytes, count)| row(&[kind.kind], vec![bytes as f64, share(count, all)])),
        );
    }
    table
}

fn sets(layout: &Layout) -> LayoutTable {
    let columns = vec![
        count("sets"),
        percent("without a node"),
        percent("without a node, by chance"),
        LayoutColumn {
            title: "lines of the fullest set ÷ average".to_owned(),
            unit: "×".to_owned(),
        },
    ];
    let mut table = table("Sets of the caches", &["kind", "cache"], columns);
    for kind in &layout.kinds {
        table
            .rows
            .extend(kind.sets.iter().map(|sets| set_row(kind, sets)));
    }
    let why = layout.no_physical.as_ref();
    table.note = why.map(|why| format!("By virtual addresses alone: {why}."));
    table
}

fn set_row(kind: &KindLayout, sets: &SetUse) -> LayoutRow {
    let by = if sets.physical { ", physical" } else { "" };
    let chance = 1.0 - sets.by_chance / sets.sets.max(1) as f64;
    let figures = vec![
        sets.sets as f64,
        sets.unused_share() * 100.0,
        chance.max(0.0) * 100.0,
        sets.crowding(),
    ];
    row(&[kind.kind, &format!("L{}{by}", sets.level)], figures)
}

fn written(layout: &Layout) -> LayoutTable {
    let columns = vec![
        count("lines"),
        percent("of several nodes"),
        percent("of several kinds"),
        count("pairs of lines"),
        percent("of several nodes"),
        count("nodes that share a line"),
    ];
    let title = "False sharing: lines with fields that updates write";
    let mut table = table(title, &["kind"], columns);
    table.rows.extend(layout.kinds.iter().map(|kind| {
        let written = &kind.written;
        let figures = vec![
            written.lines as f64,
            share(written.shared_lines, written.lines),
            share(written.mixed_lines, written.lines),
            written.pairs as f64,
            share(written.shared_pairs, written.pairs),
            written.sharing_nodes as f64,
        ];
        row(&[kind.kind], figures)
    }));
    table
}

/// Kinds that are never written are columns only.
fn beside_written(layout: &Layout) -> LayoutTable {
    let found = &layout.written_lines;
    let columns = found.kinds.iter().map(|kind| percent(kind));
    let columns = columns.chain([percent("no other node")]).collect();
    let title = "False sharing: lines that updates write, by whose other nodes they hold";
    let mut table = table(title, &["written"], columns);
    let mut never = Vec::new();
    for (nth, &kind) in found.kinds.iter().enumerate() {
        if found.all[nth] == 0 {
            never.push(kind);
            continue;
        }
        let counts = found.counts[nth].iter().chain([&found.alone[nth]]);
        let figures = counts.map(|&count| share(count, found.all[nth])).collect();
        table.rows.push(row(&[kind], figures));
    }
    if !never.is_empty() {
        table.note = Some(format!("Updates never write: {}.", never.join(", ")));
    }
    table
}

fn children(layout: &Layout) -> LayoutTable {
    let columns = vec![
        percent("same line"),
        percent("same pair"),
        percent("next line"),
        percent("of these, parent on an odd line"),
        percent("same page"),
        percent("same 2 MiB"),
        percent("further"),
    ];
    let title = "Collocation: parents by their nearest child";
    let mut table = table(title, &["parent", "child"], columns);
    table.rows.extend(layout.children.iter().map(|found| {
        let at = |nearness| found.share_of_parents(nearness) * 100.0;
        let next = found.parents[Nearness::NextLine as usize];
        let figures = vec![
            at(Nearness::SameLine),
            at(Nearness::SamePair),
            at(Nearness::NextLine),
            share(found.odd_parents, next),
            at(Nearness::SamePage),
            at(Nearness::SameSuperpage),
            at(Nearness::Apart),
        ];
        row(&[found.parent, found.child], figures)
    }));
    table
}

fn neighbours(
    title: &str,
    layout: &Layout,
    which: fn(&Layout) -> &hedgerow_memory::layout::Neighbours,
) -> LayoutTable {
    let found = which(layout);
    let columns = found.kinds.iter().map(|kind| percent(kind));
    let columns = columns.chain([percent("no node")]).collect();
    let mut table = table(title, &["kind"], columns);
    for (nth, kind) in found.kinds.iter().enumerate() {
        let counts = found.counts[nth].iter().chain([&found.nothing[nth]]);
        let figures = counts.map(|&count| share(count, found.all[nth])).collect();
        table.rows.push(row(&[kind], figures));
    }
    table
}

/// The first pages of a kind, as many as a picture has room for.
fn page_map(kind: &KindLayout) -> PageMap {
    let runs = &kind.pages.runs;
    let origin = runs.first().map_or(0, |run| run.first);
    let mut drawn = 0;
    let room = |run: &&hedgerow_memory::layout::PageRun| {
        let fits = drawn <= MOST_PAGES;
        drawn += run.pages;
        fits
    };
    let first_runs = runs.iter().take_while(room).map(|run| PageRun {
        first: run.first - origin,
        pages: run.pages,
    });
    PageMap {
        kind: kind.kind.to_owned(),
        pages: kind.pages.pages,
        runs: runs.len(),
        dense_percent: kind.pages.density() * 100.0,
        first_runs: first_runs.collect(),
    }
}

#[cfg(test)]
mod tests {
    use hedgerow_memory::layout::{Cache, Inspector};
    use hedgerow_memory::{PlacedNode, VisitNodes, WrittenFields};

    use super::*;

    /// Two lines: a row's lock beside a node that has links, and a leaf alone.
    struct Made;

    impl VisitNodes for Made {
        fn visit_nodes(&self, visit: &mut dyn FnMut(&PlacedNode)) {
            let written = |bytes: usize| WrittenFields::NONE.and(0..bytes);
            let nodes = [("lock", 0, 40), ("node", 40, 16), ("leaf", 64, 0)];
            for (kind, at, written_bytes) in nodes {
                visit(&PlacedNode {
                    kind,
                    address: (1 << 30) + at,
                    bytes: written_bytes.max(16),
                    search_fields: 0..16,
                    written_fields: written(written_bytes),
                    parent: None,
                });
            }
        }
    }

    fn table(inspected: &Inspected, title: &str) -> LayoutTable {
        let mut tables = inspected.tables.iter();
        let found = tables.find(|table| table.title == title);
        found.expect("a table").clone()
    }

    #[test]
    fn lines_that_updates_write_are_shown_with_what_else_they_hold() {
        let caches = vec![Cache::new(1, 64, 8, 64)];
        let inspector = Inspector::new(caches, Err("made up".to_owned()));
        let inspected = inspected(&inspector.layout_of(&Made));
        let title = "False sharing: lines that updates write, by whose other nodes they hold";
        assert_eq!(
            table(&inspected, title).to_string(),
            format!(
                "{title}\n\
                 \x20 written    lock    node  leaf  no other node\n\
                 \x20 lock       0.0%  100.0%  0.0%           0.0%\n\
                 \x20 node     100.0%    0.0%  0.0%           0.0%\n\
                 \x20 Updates never write: leaf.\n"
            )
        );
        let title = "False sharing: lines with fields that updates write";
        let rows = table(&inspected, title).rows;
        let figures: Vec<_> = rows.into_iter().map(|row| row.figures).collect();
        let of_both = vec![1.0, 0.0, 100.0, 1.0, 0.0, 1.0];
        assert_eq!(figures, [of_both.clone(), of_both, vec![0.0; 6]]);
    }
}
