//! Opens a database, writes, reads a range, and survives a restart.
//!
//! `cargo run -p hedgerow --example first_steps -- /tmp/hedge`

use hedgerow::{Db, Durability, WriteOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::args()
        .nth(1)
        .ok_or("usage: first_steps DIRECTORY")?;
    let db = Db::open(&dir)?;
    let shrubs = db.keyspace("shrubs")?;
    println!("{} rows were here already", shrubs.len());

    for (name, latin) in [
        ("blackthorn", "Prunus spinosa"),
        ("dog rose", "Rosa canina"),
        ("hawthorn", "Crataegus monogyna"),
        ("hazel", "Corylus avellana"),
        ("holly", "Ilex aquifolium"),
    ] {
        shrubs.put(name.as_bytes(), latin.as_bytes())?;
    }
    // Acknowledged only once it would survive a power cut, and everything before with it.
    shrubs.put_with(b"spindle", b"Euonymus europaeus", &Durability::Sync.into())?;

    println!("from h on, backwards:");
    for entry in shrubs.range("h"..)?.rev() {
        let entry = entry?;
        let value = entry.value().unwrap_or_default();
        println!(
            "  {} = {}",
            entry.key().escape_ascii(),
            value.escape_ascii()
        );
    }

    let in_a_minute = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    let expiry_ms = in_a_minute
        .duration_since(std::time::UNIX_EPOCH)?
        .as_millis() as u64;
    let flower = WriteOptions::default().expiry_ms(expiry_ms);
    shrubs.put_with(b"flower of the day", b"dog rose", &flower)?;
    db.close()?;
    Ok(())
}
