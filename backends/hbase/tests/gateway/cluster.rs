//! The client beside a real cluster, where `HEDGEROW_HBASE_URL` names one (`.ci/hbase up` starts
//! one, and prints its URL). All that the test makes is in a namespace of its own, which it removes
//! again.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hedgerow_hbase::thrift2::{
    TBloomFilterType, TCompareOp, TDataBlockEncoding, TResult, TThriftServerType,
};
use hedgerow_hbase::{
    Calls, Check, ClusterUrl, Error, Gateways, Options, Repeat, TableName, cells,
};

const F: &[u8] = b"f";
const Q: &[u8] = b"q";

fn value(row: &TResult) -> Option<&[u8]> {
    let cell = row.column_values.first();
    cell.map(|cell| cell.value.as_slice())
}

fn put(key: &[u8], value: &[u8]) -> hedgerow_hbase::thrift2::TPut {
    cells::put(key, vec![cells::column_value(F, Q, value)])
}

struct Cluster {
    gateways: Gateways,
    namespace: String,
    table: TableName,
}

impl Cluster {
    /// One with a table, if the environment names a cluster.
    fn open() -> Option<Cluster> {
        let Ok(url) = std::env::var("HEDGEROW_HBASE_URL") else {
            println!("skipped: HEDGEROW_HBASE_URL names no HBase cluster");
            return None;
        };
        let url: ClusterUrl = url.parse().unwrap_or_else(|error| panic!("{error}"));
        let gateways = Gateways::new(&url, Options::default()).expect("a thread");
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let micros = since.expect("after 1970").as_micros();
        let namespace = format!("{}_test_{micros}", url.namespace());
        let table = TableName::new(&namespace, "rows").expect("a legal name");
        let cluster = Cluster {
            gateways,
            namespace,
            table,
        };
        cluster.create();
        Some(cluster)
    }

    fn calls(&self) -> Calls<'_> {
        self.gateways.within(Duration::from_secs(120))
    }

    fn create(&self) {
        let calls = self.calls();
        for _ in 0..2 {
            let ensured = calls.ensure_namespace(&self.namespace);
            assert_eq!(ensured, Ok(()));
        }
        let mut family = cells::column_family(F);
        family.max_versions = Some(1);
        family.bloomn_filter_type = Some(TBloomFilterType::ROW);
        family.data_block_encoding = Some(TDataBlockEncoding::FAST_DIFF);
        let descriptor = cells::table(&self.table, vec![family]);
        assert_eq!(calls.table_exists(&self.table), Ok(false));
        let created = calls.create_table(&descriptor);
        assert_eq!(created, Ok(()));
        let again = calls.create_table(&descriptor).expect_err("exists");
        assert!(matches!(again, Error::Refused { .. }), "{again}");
    }
}

/// Of keys that lie in the frame of a call, gateways of HBase 2.6 take the whole frame.
#[test]
fn a_table_begins_with_the_regions_that_were_asked_for() {
    let Some(cluster) = Cluster::open() else {
        return;
    };
    let calls = cluster.calls();
    let table = TableName::new(&cluster.namespace, "split").expect("a legal name");
    let descriptor = cells::table(&table, vec![cells::column_family(F)]);
    let keys = [b"d".to_vec(), b"long key\0\xff".to_vec(), vec![b'x'; 1000]];
    assert_eq!(calls.create_split_table(&descriptor, &keys), Ok(()));
    let again = calls.create_split_table(&descriptor, &keys);
    let again = again.expect_err("exists");
    let regions = calls.region_locations(&table).expect("it exists");
    let removed = calls.disable_table(&table);
    assert_eq!(removed.and_then(|()| calls.delete_table(&table)), Ok(()));
    assert!(matches!(again, Error::Refused { .. }), "{again}");
    let expected = [&[Vec::new()][..], &keys].concat();
    let firsts = regions
        .into_iter()
        .map(|region| region.region_info.start_key);
    assert_eq!(firsts.flatten().collect::<Vec<_>>(), expected);
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let calls = self.calls();
        let removed = calls.disable_table(&self.table);
        let removed = removed.and_then(|()| calls.delete_table(&self.table));
        let removed = removed.and_then(|()| calls.delete_namespace(&self.namespace));
        if let Err(error) = removed {
            println!("{} stays in the cluster: {error}", self.namespace);
        }
    }
}

#[test]
fn a_cluster_does_what_the_calls_say() {
    let Some(cluster) = Cluster::open() else {
        return;
    };
    let calls = cluster.calls();
    let table = &cluster.table;
    describes_itself(&cluster);
    reads_and_writes(calls, table);
    checks_before_it_writes(calls, table);
    counts_and_appends(calls, table);
    scans(calls, table);
    refuses(calls, &cluster.namespace, table);
    takes_large_values(&cluster);
    assert_eq!(calls.disable_table(table), Ok(()));
    assert_eq!(calls.truncate_table(table, true), Ok(()));
    assert_eq!(calls.region_locations(table).map(|r| r.len()), Ok(1));
    let page = calls.scan_page(table, &cells::scan(None, None), 10);
    assert_eq!(page, Ok(vec![]));
    let statistics = cluster.gateways.statistics();
    println!("{statistics:?}");
    assert!(statistics.gateways.iter().all(|gateway| gateway.is_healthy));
}

fn describes_itself(cluster: &Cluster) {
    let calls = cluster.calls();
    let table = &cluster.table;
    assert_eq!(calls.server_type(), Ok(TThriftServerType::TWO));
    let id = calls.cluster_id().expect("an id");
    assert!(!id.is_empty());
    assert_eq!(calls.table_exists(table), Ok(true));
    assert_eq!(calls.is_table_available(table), Ok(true));
    let descriptor = calls.table_descriptor(table).expect("a table");
    let families = descriptor.columns.expect("families");
    assert_eq!(families[0].name, F);
    assert_eq!(
        families[0].data_block_encoding,
        Some(TDataBlockEncoding::FAST_DIFF)
    );
    let tables = calls.tables_of_namespace(&cluster.namespace);
    assert_eq!(tables, Ok(vec![table.clone()]));
    let namespaces = calls.namespaces().expect("namespaces");
    assert!(namespaces.contains(&cluster.namespace));
    let namespace = calls.namespace_descriptor(&cluster.namespace);
    assert_eq!(namespace.map(|n| n.name), Ok(cluster.namespace.clone()));
    let regions = calls.region_locations(table).expect("regions");
    let starts = regions.iter().map(|r| r.region_info.start_key.clone());
    let starts: Vec<_> = starts.map(Option::unwrap_or_default).collect();
    assert_eq!(starts, [b"".to_vec()]);
    let region = calls.region_location(table, b"z", true).expect("a region");
    assert_eq!(region.region_info.start_key.unwrap_or_default(), b"");
}

fn reads_and_writes(calls: Calls<'_>, table: &TableName) {
    let freely = Repeat::Freely;
    assert_eq!(calls.put(table, &put(b"a", b"1"), freely), Ok(()));
    let read = calls.get(table, &cells::get(b"a")).expect("a row");
    assert_eq!(
        (value(&read), read.row.as_deref()),
        (Some(&b"1"[..]), Some(&b"a"[..]))
    );
    let none = calls.get(table, &cells::get(b"none")).expect("no row");
    assert_eq!((none.row, none.column_values.len()), (None, 0));
    assert_eq!(calls.exists(table, &cells::get(b"a")), Ok(true));
    assert_eq!(calls.exists(table, &cells::get(b"none")), Ok(false));
    // Keys and values of all bytes, in both regions; an empty value is a value.
    let puts = [
        put(b"\0\xff", b"\0"),
        put(b"z\0", b""),
        put(b"\xff", &[0xff; 300]),
    ];
    assert_eq!(calls.put_multiple(table, &puts, freely), Ok(()));
    let keys: [&[u8]; 5] = [b"\xff", b"none", b"z\0", b"a", b"\0\xff"];
    let rows = calls
        .get_multiple(table, &keys.map(cells::get))
        .expect("rows");
    let values: Vec<_> = rows.iter().map(value).collect();
    let expected: [Option<&[u8]>; 5] =
        [Some(&[0xff; 300]), None, Some(b""), Some(b"1"), Some(b"\0")];
    assert_eq!(values, expected);
    let columns = vec![cells::column(F, Some(Q))];
    let deletes = [
        cells::delete_row(b"z\0"),
        cells::delete_columns(b"\xff", columns),
    ];
    assert_eq!(calls.delete_multiple(table, &deletes, freely), Ok(()));
    assert_eq!(
        calls.delete(table, &cells::delete_row(b"\0\xff"), freely),
        Ok(())
    );
    let left = calls
        .scan_page(table, &cells::scan(None, None), 10)
        .expect("rows");
    assert_eq!(left.len(), 1);
    // A row's writes and removals, at once.
    let new = cells::put(b"a", vec![cells::column_value(F, b"p", b"2")]);
    let old = cells::delete_columns(b"a", vec![cells::column(F, Some(Q))]);
    let both = cells::row_mutations(b"a", vec![new], vec![old]);
    assert_eq!(calls.mutate_row(table, &both, freely), Ok(()));
    let read = calls.get(table, &cells::get(b"a")).expect("a row");
    assert_eq!(
        (value(&read), read.column_values.len()),
        (Some(&b"2"[..]), 1)
    );
}

fn checks_before_it_writes(calls: Calls<'_>, table: &TableName) {
    let once = Repeat::OnlyIfUnsent;
    let write = |check: &Check<'_>, new: &[u8]| {
        let row = cells::row_mutations(check.row, vec![put(check.row, new)], vec![]);
        calls.check_and_mutate(table, check, &row, once)
    };
    let absent = Check::absent(b"c", F, Q);
    assert_eq!(write(&absent, b"1"), Ok(true));
    assert_eq!(write(&absent, b"2"), Ok(false));
    assert_eq!(write(&Check::equals(b"c", F, Q, b"0"), b"2"), Ok(false));
    assert_eq!(write(&Check::equals(b"c", F, Q, b"1"), b"5"), Ok(true));
    // The value compares with the cell's, not the other way round.
    let mut check = Check::equals(b"c", F, Q, b"4");
    check.compare = TCompareOp::GREATER;
    assert_eq!(write(&check, b"5"), Ok(false));
    check.compare = TCompareOp::LESS;
    assert_eq!(write(&check, b"5"), Ok(true));
    let equal = Check::equals(b"c", F, Q, b"5");
    assert_eq!(
        calls.check_and_put(table, &absent, &put(b"c", b"6"), once),
        Ok(false)
    );
    assert_eq!(
        calls.check_and_put(table, &equal, &put(b"c", b"6"), once),
        Ok(true)
    );
    let equal = Check::equals(b"c", F, Q, b"6");
    let delete = cells::delete_row(b"c");
    assert_eq!(
        calls.check_and_delete(table, &absent, &delete, once),
        Ok(false)
    );
    assert_eq!(
        calls.check_and_delete(table, &equal, &delete, once),
        Ok(true)
    );
    assert_eq!(
        calls.check_and_put(table, &absent, &put(b"c", b""), once),
        Ok(true)
    );
    // Many at once, of both regions: each key twice, so half of them fail.
    let keys: Vec<Vec<u8>> = (0..200)
        .map(|nth| format!("{}-{}", if nth % 4 < 2 { "c" } else { "y" }, nth / 2).into_bytes())
        .collect();
    let writes = keys.iter().map(|key| {
        let row = cells::row_mutations(key, vec![put(key, b"v")], vec![]);
        (Check::absent(key, F, Q), row)
    });
    let results = calls.check_and_mutate_many(table, &Vec::from_iter(writes), once);
    for (nth, result) in results.iter().enumerate() {
        assert_eq!(*result, Ok(nth % 2 == 0), "{nth}");
    }
    let deletes: Vec<_> = keys.iter().map(|key| cells::delete_row(key)).collect();
    assert_eq!(
        calls.delete_multiple(table, &deletes, Repeat::Freely),
        Ok(())
    );
}

fn counts_and_appends(calls: Calls<'_>, table: &TableName) {
    for expected in [5_i64, 10, 15] {
        let added = calls.increment(table, &cells::increment(b"i", F, Q, 5));
        let added = added.expect("a counter");
        assert_eq!(value(&added), Some(&expected.to_be_bytes()[..]));
    }
    for expected in ["ab", "abab"] {
        let append = cells::append(b"t", vec![cells::column_value(F, Q, b"ab")]);
        let appended = calls.append(table, &append).expect("a value");
        assert_eq!(value(&appended), Some(expected.as_bytes()));
    }
}

fn scans(calls: Calls<'_>, table: &TableName) {
    let keys: Vec<Vec<u8>> = (0..100)
        .map(|nth| format!("{}{nth:03}", if nth < 50 { "k" } else { "n" }).into_bytes())
        .collect();
    let puts: Vec<_> = keys.iter().map(|key| put(key, b"v")).collect();
    assert_eq!(calls.put_multiple(table, &puts, Repeat::Freely), Ok(()));
    let range = cells::scan(Some(b"k"), Some(b"o"));
    let keys_of = |rows: Vec<TResult>| -> Vec<Vec<u8>> {
        rows.into_iter()
            .map(|row| row.row.expect("a key"))
            .collect()
    };
    let page = calls.scan_page(table, &range, 60).expect("rows");
    assert_eq!(keys_of(page), keys[..60]);
    let page = calls.scan_page(table, &range, 1000).expect("rows");
    assert_eq!(keys_of(page), keys);
    let mut backwards = cells::scan(Some(b"o"), Some(b"k"));
    backwards.reversed = Some(true);
    let page = calls.scan_page(table, &backwards, 3).expect("rows");
    let last = keys.iter().rev().take(3).cloned();
    assert_eq!(keys_of(page), Vec::from_iter(last));
    let scanner = calls.open_scanner(table, &range).expect("a scanner");
    let mut read = Vec::new();
    loop {
        let rows = calls.scanner_rows(&scanner, 30).expect("rows");
        if rows.is_empty() {
            break;
        }
        read.extend(keys_of(rows));
    }
    assert_eq!(read, keys);
    assert_eq!(calls.close_scanner(scanner), Ok(()));
}

fn refuses(calls: Calls<'_>, namespace: &str, table: &TableName) {
    let other_family = cells::put(b"r", vec![cells::column_value(b"g", Q, b"v")]);
    let no_table = TableName::new(namespace, "none").expect("a legal name");
    let refused = [
        calls.put(table, &other_family, Repeat::OnlyIfUnsent),
        calls.put(&no_table, &put(b"r", b"v"), Repeat::OnlyIfUnsent),
        calls.get(&no_table, &cells::get(b"r")).map(|_| ()),
        calls.put_multiple(&no_table, &[put(b"r", b"v")], Repeat::Freely),
        calls.create_namespace(namespace),
        calls.enable_table(table),
        calls.delete_table(table),
    ];
    for result in refused {
        let error = result.expect_err("refused");
        println!("{error}");
        assert!(error.refusal().is_some(), "{error}");
    }
}

fn takes_large_values(cluster: &Cluster) {
    let calls = cluster.calls();
    let table = &cluster.table;
    // Each fits into a request; together they are an answer that is longer than a request may be.
    let long = vec![7; 1 << 20];
    for key in [b"l1", b"l2", b"l3", b"l4"] {
        assert_eq!(calls.put(table, &put(key, &long), Repeat::Freely), Ok(()));
    }
    let rows = calls.scan_page(table, &cells::scan(Some(b"l1"), Some(b"l5")), 10);
    let rows = rows.expect("rows");
    assert!(rows.len() == 4 && rows.iter().all(|row| value(row) == Some(&long)));
}
