//! The caches of the machine, as its kernel describes them.

use std::path::Path;

/// A cache for data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cache {
    /// 1 is next to the core.
    pub level: u32,
    /// How many sets it has.
    pub sets: usize,
    /// Lines of a set.
    pub ways: usize,
    /// Bytes of a line.
    pub line_bytes: usize,
}

impl Cache {
    /// A cache of a level.
    #[must_use]
    pub fn new(level: u32, sets: usize, ways: usize, line_bytes: usize) -> Self {
        Self {
            level,
            sets,
            ways,
            line_bytes,
        }
    }

    /// Its size.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.sets * self.ways * self.line_bytes
    }
}

/// The caches for data of the first core, from the first level on; none where the kernel does not
/// describe them.
#[must_use]
pub fn caches_of_this_machine() -> Vec<Cache> {
    if cfg!(any(miri, not(target_os = "linux"))) {
        return Vec::new();
    }
    caches_described_in(Path::new("/sys/devices/system/cpu/cpu0/cache"))
}

fn caches_described_in(folder: &Path) -> Vec<Cache> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut caches: Vec<Cache> = entries
        .filter_map(|entry| {
            let text = |file: &str| std::fs::read_to_string(entry.path().join(file)).ok();
            let number = |file: &str| text(file)?.trim().parse::<usize>().ok();
            if text("type")?.trim() == "Instruction" {
                return None;
            }
            Some(Cache {
                level: number("level")? as u32,
                sets: number("number_of_sets").filter(|&sets| sets > 0)?,
                ways: number("ways_of_associativity")?,
                line_bytes: number("coherency_line_size").filter(|&bytes| bytes > 0)?,
            })
        })
        .collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "it reads files")]
    fn caches_are_read_from_the_kernels_files_but_for_those_of_instructions() {
        let folder = std::env::temp_dir().join(format!("hedgerow-caches-{}", std::process::id()));
        let describe = |name: &str, level: &str, kind: &str, sets: &str| {
            let folder = folder.join(name);
            std::fs::create_dir_all(&folder).expect("a folder");
            let files = [
                ("level", level),
                ("type", kind),
                ("number_of_sets", sets),
                ("ways_of_associativity", "8"),
                ("coherency_line_size", "64"),
            ];
            for (file, text) in files {
                std::fs::write(folder.join(file), format!("{text}\n")).expect("a file");
            }
        };
        describe("index0", "1", "Data", "64");
        describe("index1", "1", "Instruction", "64");
        describe("index2", "3", "Unified", "4096");
        describe("index3", "2", "Unified", "1024");
        std::fs::write(folder.join("uevent"), "").expect("a file");
        let caches = caches_described_in(&folder);
        std::fs::remove_dir_all(&folder).expect("the folder is there");
        let wanted = [(1, 64), (2, 1024), (3, 4096)];
        assert_eq!(
            caches,
            wanted.map(|(level, sets)| Cache::new(level, sets, 8, 64))
        );
        assert_eq!(caches[0].bytes(), 32 << 10);
        assert!(caches_described_in(&folder).is_empty());
    }
}
