//! The HBase cluster that `.ci/hbase up` started: where its gateways listen, and what its processes
//! take.
//!
//! `HEDGEROW_HBASE_DIR` names its folder. Where it is not set nobody is measured on HBase.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hedgerow_lab_contender::Unavailable;

/// An environment variable: the folder of the cluster.
pub const FOLDER: &str = "HEDGEROW_HBASE_DIR";

/// The processes of each role that the lab counts, by their names in the folder.
pub const ROLES: [(&str, &[&str]); 2] = [
    ("gateways", &["gateway-1", "gateway-2"]),
    ("region servers", &["region-server-1", "region-server-2"]),
];

/// A cluster of this machine.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    ports: BTreeMap<String, u16>,
    processes: BTreeMap<&'static str, Process>,
}

/// One of its processes.
#[derive(Debug)]
struct Process {
    id: u32,
    arguments: Vec<String>,
}

impl Cluster {
    /// The cluster that runs here.
    ///
    /// # Errors
    ///
    /// When there is none, or one of its processes is dead.
    pub fn here() -> Result<Self, Unavailable> {
        let missing = |why: String| Unavailable {
            why,
            remedy: format!(
                "start one by `HEDGEROW_HBASE_MEASURE=1 .ci/hbase up`, and set {FOLDER} to its \
                 folder"
            ),
        };
        let folder = std::env::var_os(FOLDER)
            .map(PathBuf::from)
            .ok_or_else(|| missing("no HBase cluster".to_owned()))?;
        // As the processes were told it.
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        let ports = std::fs::read_to_string(folder.join("ports"))
            .map_err(|_| missing(format!("no HBase cluster in {}", folder.display())))?;
        let ports = ports_of(&ports);
        let mut processes = BTreeMap::new();
        for name in ROLES.iter().flat_map(|(_, names)| *names) {
            let process = Process::named(&folder, name)
                .filter(|_| ports.contains_key(*name))
                .ok_or_else(|| missing(format!("{name} of {} is dead", folder.display())))?;
            processes.insert(*name, process);
        }
        Ok(Self {
            folder,
            ports,
            processes,
        })
    }

    /// What `hedgerow serve --backend` takes to use a namespace.
    #[must_use]
    pub fn url(&self, namespace: &str) -> String {
        let gateways = self
            .ports
            .iter()
            .filter(|(name, _)| name.starts_with("gateway-"));
        let gateways = gateways.map(|(_, port)| format!("127.0.0.1:{port}"));
        let gateways: Vec<_> = gateways.collect();
        format!("hbase://{}/{namespace}", gateways.join(","))
    }

    /// The numbers of the processes of a role.
    #[must_use]
    pub fn ids(&self, role: &str) -> Vec<u32> {
        let names = ROLES.iter().filter(|(other, _)| *other == role);
        let names = names.flat_map(|(_, names)| *names);
        names
            .filter_map(|name| self.processes.get(name).map(|process| process.id))
            .collect()
    }

    /// Whether its processes were started to be measured.
    #[must_use]
    pub fn is_for_measuring(&self) -> bool {
        let mut arguments = self
            .processes
            .values()
            .flat_map(|process| &process.arguments);
        !arguments.any(|argument| argument.starts_with("-XX:TieredStopAtLevel"))
    }

    /// Its configuration file.
    #[must_use]
    pub fn configuration(&self) -> PathBuf {
        self.folder.join("conf/hbase-site.xml")
    }

    /// The file of HBase's client among the jars that its processes use.
    #[must_use]
    pub fn client_jar(&self) -> Option<&Path> {
        let arguments = &self.processes.values().next()?.arguments;
        let path = arguments
            .iter()
            .skip_while(|argument| *argument != "-cp")
            .nth(1)?;
        let is_client = |jar: &&Path| {
            let name = jar.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| name.starts_with("hbase-client-"))
        };
        path.split(':').map(Path::new).find(is_client)
    }

    /// The version of its HBase.
    #[must_use]
    pub fn version(&self) -> Option<String> {
        let name = self.client_jar()?.file_stem()?.to_str()?;
        name.strip_prefix("hbase-client-").map(str::to_owned)
    }
}

impl Process {
    /// The process that runs under this name; its command line tells it from a later owner of the
    /// number.
    fn named(folder: &Path, name: &str) -> Option<Self> {
        let id = std::fs::read_to_string(folder.join("pid").join(name)).ok()?;
        let id: u32 = id.trim().parse().ok()?;
        let line = std::fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let words = line.split(|byte| *byte == 0);
        let arguments: Vec<_> = words
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        let mark = format!("-Dhedgerow.process={}/{name}", folder.display());
        arguments.contains(&mark).then_some(Self { id, arguments })
    }
}

/// The ports by the names of processes, as the file `ports` has them.
fn ports_of(text: &str) -> BTreeMap<String, u16> {
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let ports = lines.filter_map(|(name, port)| Some((name.to_owned(), port.parse().ok()?)));
    ports.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_all_gateways_and_a_version_is_read_off_the_jars() {
        let process = |argument: &str| Process {
            id: 7,
            arguments: vec!["-cp".to_owned(), argument.to_owned()],
        };
        let mut cluster = Cluster {
            folder: PathBuf::from("/x"),
            ports: ports_of("zookeeper-1 1\ngateway-1 20\ngateway-2 30\nweb 4\nbad\n"),
            processes: [(
                "gateway-1",
                process("/x/conf:/j/hbase-client-2.6.1.jar:/j/z.jar"),
            )]
            .into(),
        };
        assert_eq!(cluster.url("n"), "hbase://127.0.0.1:20,127.0.0.1:30/n");
        assert_eq!(cluster.version().as_deref(), Some("2.6.1"));
        assert_eq!(cluster.ids("gateways"), [7]);
        assert!(cluster.ids("region servers").is_empty());
        assert!(cluster.is_for_measuring());
        cluster
            .processes
            .insert("region-server-1", process("-XX:TieredStopAtLevel=1"));
        assert!(!cluster.is_for_measuring());
    }
}
