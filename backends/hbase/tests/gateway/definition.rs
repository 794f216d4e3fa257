//! Each call sends the arguments that the interface definition gives its method: by their ids, of
//! their types, all that are required.

use std::collections::BTreeMap;

use hedgerow_hbase::{Calls, Check, Repeat, cells};
use thrift::ApplicationErrorKind;
use thrift::protocol::{TBinaryInputProtocol, TInputProtocol, TType};

use crate::fake::{Fake, HANDSHAKE, LONG, Reply, gateways, options, rows};

const DEFINITION: &str = include_str!("../../idl/hbase.thrift");

/// An argument: its type in the definition, and whether it must be sent.
type Parameter = (String, bool);

/// The methods of the definition with their arguments by id.
fn methods() -> BTreeMap<String, BTreeMap<i16, Parameter>> {
    let service = without_comments(DEFINITION);
    let (_, service) = service.split_once("service THBaseService").expect("there");
    let (_, service) = service.split_once('{').expect("its body");
    let mut methods = BTreeMap::new();
    let mut rest = service;
    while let Some((before, after)) = rest.split_once('(') {
        let name = before.split_whitespace().last().expect("a name");
        let (parameters, after) = after.split_once(')').expect("its end");
        if name != "throws" {
            methods.insert(name.to_owned(), parameters_of(parameters));
        }
        rest = after;
    }
    methods
}

fn without_comments(text: &str) -> String {
    let mut left = text;
    let mut code = String::new();
    while let Some((before, comment)) = left.split_once("/*") {
        code.push_str(before);
        left = comment.split_once("*/").expect("its end").1;
    }
    code.push_str(left);
    let lines = code.lines().map(|line| line.split("//").next());
    let lines: Vec<&str> = lines.map(Option::unwrap_or_default).collect();
    lines.join("\n")
}

/// Reads `1: required binary table, 2: TGet tget`, with commas or without.
fn parameters_of(text: &str) -> BTreeMap<i16, Parameter> {
    let mut parameters = BTreeMap::new();
    let words: Vec<&str> = text.split([' ', '\n', ',']).collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    for (at, word) in words.iter().enumerate() {
        let Some(id) = word.strip_suffix(':') else {
            continue;
        };
        let (is_required, kind) = match words[at + 1] {
            "required" => (true, words[at + 2]),
            "optional" => (false, words[at + 2]),
            kind => (false, kind),
        };
        let id = id.parse().expect("a number");
        parameters.insert(id, (kind.to_owned(), is_required));
    }
    parameters
}

fn wire_type(kind: &str) -> TType {
    match kind {
        "binary" | "string" => TType::String,
        "bool" => TType::Bool,
        "i32" | "TCompareOp" => TType::I32,
        list if list.starts_with("list<") => TType::List,
        structure if structure.starts_with('T') => TType::Struct,
        other => panic!("what is {other}?"),
    }
}

/// The ids and types in a structure.
fn fields(structure: &[u8]) -> BTreeMap<i16, TType> {
    let mut rest = structure;
    let mut protocol = TBinaryInputProtocol::new(&mut rest, true);
    let mut fields = BTreeMap::new();
    loop {
        let field = protocol.read_field_begin().expect("a field");
        if field.field_type == TType::Stop {
            break;
        }
        protocol.skip(field.field_type).expect("its value");
        let id = field.id.expect("an id");
        assert_eq!(
            fields.insert(id, field.field_type),
            None,
            "field {id} twice"
        );
    }
    assert!(rest.is_empty(), "nothing behind the arguments");
    fields
}

/// Calls everything; the gateway knows none of it.
fn call_everything(calls: Calls<'_>) {
    let table = rows();
    let freely = Repeat::Freely;
    let check = Check::equals(b"r", b"f", b"q", b"v");
    let absent = Check::absent(b"r", b"f", b"q");
    let cell = || vec![cells::column_value(b"f", b"q", b"v")];
    let put = cells::put(b"r", cell());
    let column = cells::column(b"f", Some(b"q"));
    let delete = cells::delete_columns(b"r", vec![column]);
    let row = cells::row_mutations(b"r", vec![put.clone()], vec![delete.clone()]);
    let scan = cells::scan(Some(b"a"), Some(b"b"));
    let _ = calls.exists(&table, &cells::get(b"r"));
    let _ = calls.get(&table, &cells::get(b"r"));
    let _ = calls.get_multiple(&table, &[cells::get(b"r")]);
    let _ = calls.scan_page(&table, &scan, 10);
    let _ = calls.open_scanner(&table, &scan);
    let _ = calls.region_locations(&table);
    let _ = calls.region_location(&table, b"r", true);
    let _ = calls.put(&table, &put, freely);
    let _ = calls.put_multiple(&table, std::slice::from_ref(&put), freely);
    let _ = calls.delete(&table, &delete, freely);
    let _ = calls.delete_multiple(&table, std::slice::from_ref(&delete), freely);
    let _ = calls.mutate_row(&table, &row, freely);
    let _ = calls.increment(&table, &cells::increment(b"r", b"f", b"q", 1));
    let _ = calls.append(&table, &cells::append(b"r", cell()));
    for check in [check, absent] {
        let _ = calls.check_and_mutate(&table, &check, &row, freely);
        let _ = calls.check_and_mutate_many(&table, &[(check, row.clone())], freely);
        let _ = calls.check_and_put(&table, &check, &put, freely);
        let _ = calls.check_and_delete(&table, &check, &delete, freely);
    }
    let _ = calls.table_exists(&table);
    let _ = calls.is_table_available(&table);
    let _ = calls.table_descriptor(&table);
    let descriptor = cells::table(&table, vec![cells::column_family(b"f")]);
    let _ = calls.create_table(&descriptor);
    let _ = calls.delete_table(&table);
    let _ = calls.truncate_table(&table, true);
    let _ = calls.enable_table(&table);
    let _ = calls.disable_table(&table);
    let _ = calls.tables_of_namespace("test");
    let _ = calls.namespaces();
    let _ = calls.namespace_descriptor("test");
    let _ = calls.create_namespace("test");
    let _ = calls.delete_namespace("test");
    let _ = calls.cluster_id();
    let _ = calls.server_type();
}

#[test]
fn calls_are_as_they_are_defined() {
    let fake = Fake::start(|seen| match seen.method.as_str() {
        "openScanner" => Reply::Integer(1),
        _ => Reply::Application(ApplicationErrorKind::UnknownMethod, "unknown"),
    });
    let gateways = gateways(&[&fake], options());
    let calls = gateways.within(LONG);
    call_everything(calls);
    let scanner = calls.open_scanner(&rows(), &cells::scan(None, None));
    let scanner = scanner.expect("a scanner");
    let _ = calls.scanner_rows(&scanner, 10);
    let _ = calls.close_scanner(scanner);
    let mut methods = methods();
    assert!(methods.len() > 30, "the methods were found");
    let seen = fake.seen();
    for call in &seen {
        let Some(parameters) = methods.get(&call.method) else {
            panic!("{} is not in the definition", call.method);
        };
        let fields = fields(&call.arguments);
        for (id, wire) in &fields {
            let (kind, _) = &parameters[id];
            assert_eq!(*wire, wire_type(kind), "{} of {}", id, call.method);
        }
        for (id, (_, is_required)) in parameters {
            let is_sent = fields.contains_key(id);
            assert!(is_sent || !is_required, "{} of {}", id, call.method);
        }
    }
    for call in &seen {
        methods.remove(&call.method);
    }
    methods.remove(HANDSHAKE);
    assert!(methods.is_empty(), "nobody called {methods:?}");
}
