//! Where a table is split that is made for rows which are known: so that its parts get about as
//! many rows each. A sample of the source's keys says where.

use std::ops::ControlFlow;

use hedgerow::Direction;
use hedgerow::backend::BackendKeyspace;

use crate::error::Result;

/// Keys that are drawn for each part: then a part has a third too much at most, nearly always.
const DRAWN_OF_A_PART: usize = 128;

/// The first keys of all parts but the first, in order. Goes through all keys.
pub(super) fn split_keys<K: BackendKeyspace>(keyspace: &K, parts: usize) -> Result<Vec<Vec<u8>>> {
    let most = parts * DRAWN_OF_A_PART;
    let (mut drawn, mut seen) = (Vec::new(), 0_u64);
    keyspace.scan_keys(.., Direction::Forward, |key| {
        // Each key is among the drawn with the same probability.
        seen += 1;
        match rand::random_range(0..seen) as usize {
            _ if drawn.len() < most => drawn.push(key.to_vec()),
            place if place < most => drawn[place] = key.to_vec(),
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    drawn.sort_unstable();
    let firsts = (1..parts).filter_map(|part| drawn.get(part * drawn.len() / parts));
    let mut firsts: Vec<_> = firsts.filter(|key| !key.is_empty()).cloned().collect();
    firsts.dedup();
    Ok(firsts)
}

#[cfg(test)]
mod tests {
    use hedgerow::Db;

    use super::*;

    #[test]
    fn parts_have_about_as_many_rows_each() {
        let db = Db::builder().open_in_memory().unwrap();
        let rows = db.keyspace("default").unwrap();
        for i in 0..20_000_u32 {
            // More and more of them behind each other.
            rows.put(format!("key {:010}", i * i).as_bytes(), b"")
                .unwrap();
        }
        let keys = split_keys(&rows, 8).unwrap();
        assert_eq!(keys.len(), 7);
        assert!(keys.is_sorted());
        let mut bounds: Vec<&[u8]> = vec![b""];
        bounds.extend(keys.iter().map(Vec::as_slice));
        bounds.push(b"l");
        for part in bounds.windows(2) {
            let count = rows.count(part[0]..part[1]).unwrap();
            assert!((1_000..5_000).contains(&count), "{count}");
        }
    }

    #[test]
    fn few_keys_make_few_parts() {
        let db = Db::builder().open_in_memory().unwrap();
        let rows = db.keyspace("default").unwrap();
        assert!(split_keys(&rows, 8).unwrap().is_empty());
        rows.put(b"", b"").unwrap();
        assert!(
            split_keys(&rows, 8).unwrap().is_empty(),
            "no part begins with the empty key"
        );
        rows.put(b"a", b"").unwrap();
        rows.put(b"b", b"").unwrap();
        assert_eq!(split_keys(&rows, 8).unwrap(), [b"a", b"b"]);
    }
}
