//! Writing a report into a folder.

use std::fs;
use std::path::{Path, PathBuf};

use crate::document::Document;
use crate::read::{ReadError, Results, read_files};
use crate::{html, layout, markdown, svg};

/// Why a report cannot be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// No file was named.
    #[error("no results files given")]
    NoFiles,
    /// The results cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A file of the report cannot be written.
    #[error("{}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}

/// Reads results `files` and writes the report on them into the folder `out`, which is made if
/// it does not exist: `report.md`, `report.html` and an `.svg` for each plot and each picture of
/// pages. Returns the files
/// written, the page first.
///
/// # Errors
///
/// When results cannot be read, or a file cannot be written.
pub fn write_report<P: AsRef<Path>>(files: &[P], out: &Path) -> Result<Vec<PathBuf>, ReportError> {
    if files.is_empty() {
        return Err(ReportError::NoFiles);
    }
    let results = read_files(files)?;
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| ReportError::Write { path, source }
    };
    fs::create_dir_all(out).map_err(failed(out))?;
    let mut written = Vec::new();
    for (name, text) in render(&results) {
        let path = out.join(name);
        fs::write(&path, text).map_err(failed(&path))?;
        written.push(path);
    }
    Ok(written)
}

/// Renders the report on `results` as names and contents of files, the page first.
#[must_use]
pub fn render(results: &Results) -> Vec<(String, String)> {
    let document = Document::of(results);
    let mut files = vec![
        ("report.html".to_owned(), html::render(&document)),
        ("report.md".to_owned(), markdown::render(&document)),
    ];
    for section in &document.sections {
        for plot in &section.plots {
            let text = svg::file(plot, &section.arrangement.shared);
            files.push((format!("{}.svg", plot.slug), text));
        }
        for page in &section.layouts {
            for (map, slug) in page.inspected.pages.iter().zip(&page.slugs) {
                files.push((format!("{slug}.svg"), layout::file(map)));
            }
        }
    }
    files
}
