//! The table of a keyspace: its name, and how it is made.
//!
//! A table's name is that of its keyspace, of which bytes that HBase's names cannot have are
//! written as `_` and two hexadecimal digits; so is `_` itself.

use hedgerow::{Error, Result};

use crate::cells::{column_family, table};
use crate::cluster::Cluster;
use crate::failure;
use crate::stored_row::FAMILY;
use crate::table_name::TableName;
use crate::thrift2::{
    TBloomFilterType, TColumnFamilyDescriptor, TCompressionAlgorithm, TDataBlockEncoding,
    TTableDescriptor,
};

/// The longest name of a keyspace, as in the engine.
const MAX_NAME_BYTES: usize = 255;

/// The table's name within its namespace.
pub(crate) fn name_of(keyspace: &str) -> Result<String> {
    if keyspace.is_empty() || keyspace.len() > MAX_NAME_BYTES {
        return Err(Error::KeyspaceName {
            bytes: keyspace.len(),
        });
    }
    let mut name = String::with_capacity(keyspace.len());
    for (i, byte) in keyspace.bytes().enumerate() {
        // Names begin with neither of these.
        let is_plain = byte.is_ascii_alphanumeric() || (i > 0 && matches!(byte, b'-' | b'.'));
        match is_plain {
            true => name.push(char::from(byte)),
            false => name.push_str(&format!("_{byte:02x}")),
        }
    }
    Ok(name)
}

/// The keyspace of a table; `None` if no keyspace has a table of this name.
pub(crate) fn keyspace_of(table: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(table.len());
    let mut rest = table.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'_' {
            bytes.push(byte);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    let keyspace = String::from_utf8(bytes).ok()?;
    (name_of(&keyspace).ok()? == table).then_some(keyspace)
}

fn descriptor(name: &TableName) -> TTableDescriptor {
    let family = TColumnFamilyDescriptor {
        max_versions: Some(1),
        bloomn_filter_type: Some(TBloomFilterType::ROW),
        compression_type: Some(TCompressionAlgorithm::GZ),
        data_block_encoding: Some(TDataBlockEncoding::FAST_DIFF),
        ..column_family(FAMILY)
    };
    table(name, vec![family])
}

/// Makes the table if there is none, also if others do so at the same time. Its regions begin with
/// these keys, which ascend.
pub(crate) fn ensure(cluster: &Cluster, name: &TableName, splits: &[Vec<u8>]) -> Result<()> {
    let exists = || cluster.read(|calls| calls.table_exists(name));
    if exists().map_err(failure::of)? {
        return Ok(());
    }
    let descriptor = descriptor(name);
    let made = cluster.write(|calls| match splits {
        [] => calls.create_table(&descriptor),
        splits => calls.create_split_table(&descriptor, splits),
    });
    match made {
        Ok(()) => Ok(()),
        // Somebody else made it, or the answer was lost.
        Err(error) => match exists() {
            Ok(true) => Ok(()),
            _ => Err(failure::of(error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tables_are_named_as_their_keyspaces_where_that_can_be() {
        assert_eq!(name_of("default").unwrap(), "default");
        assert_eq!(name_of("db7").unwrap(), "db7");
        assert_eq!(name_of(".x_y z").unwrap(), "_2ex_5fy_20z");
        assert!(name_of("").is_err() && name_of(&"x".repeat(256)).is_err());
        for other in ["_zz", "_2", "a_", "_61", "_2EX"] {
            assert_eq!(keyspace_of(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn names_go_both_ways(keyspace in "\\PC{1,40}") {
            let table = name_of(&keyspace).unwrap();
            prop_assert_eq!(keyspace_of(&table), Some(keyspace));
        }
    }
}
