//! A server in a process of the campaigns' command, which has the bug that is planted there: as far
//! as campaigns start it, it is what `hedgerow serve` is without one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use hedgerow::{Db, Durability, IndexKind};
use hedgerow_server::{Server, ServerOptions};

/// Serves as flags of `hedgerow serve` say, each of which has a value, until the process is killed
/// or a client asks it to stop.
pub(super) fn serve(flags: &[String]) -> Result<(), String> {
    let (pairs, _) = flags.as_chunks::<2>();
    let pairs = pairs.iter();
    let flags: BTreeMap<&str, &str> = pairs
        .map(|[name, value]| (name.as_str(), value.as_str()))
        .collect();
    let value = |name: &str| {
        let value = flags.get(name).copied();
        value.ok_or_else(|| format!("{name} is missing"))
    };
    let workers = value("--workers")?;
    let workers = workers
        .parse::<usize>()
        .map_err(|e| format!("--workers {workers}: {e}"))?;
    let durability = match value("--durability")? {
        "sync" => Durability::Sync,
        "none" => Durability::None,
        _ => Durability::Periodic,
    };
    let index = value("--index")?;
    let index = IndexKind::from_name(index).ok_or_else(|| format!("no index is {index:?}"))?;
    let db = Db::builder()
        .index(index)
        .workers(workers)
        .durability(durability)
        .checkpoint_log_bytes(Some(bytes(value("--checkpoint-log")?)?))
        .open(value("--data")?)
        .map_err(|error| error.to_string())?;
    // Where it is "none", memcached clients are not served.
    let memcached: Option<SocketAddr> = value("--memcached")?.parse().ok();
    let options = ServerOptions {
        memcached,
        workers,
        durability,
        ..ServerOptions::default()
    };
    let server = Server::start(Arc::new(db), options).map_err(|error| error.to_string())?;
    let addresses = server.addresses();
    let places = [
        ("Redis", addresses.resp),
        ("memcached", addresses.memcached),
    ];
    for (name, address) in places {
        let shown = address.map_or("off".to_owned(), |address| address.to_string());
        println!("  {name:<10} {shown}");
    }
    server.wait();
    Ok(())
}

/// `64KiB` and `16MiB` in bytes.
fn bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = match (text.strip_suffix("KiB"), text.strip_suffix("MiB")) {
        (Some(number), _) => (number, 1 << 10),
        (None, Some(number)) => (number, 1 << 20),
        (None, None) => (text, 1),
    };
    let number = number.parse::<u64>();
    let number = number.map_err(|e| format!("{text}: {e}"))?;
    Ok(number * unit)
}
