//! Names of tables and namespaces, as HBase allows them.

use std::fmt;

use crate::error::{Error, Result};
use crate::thrift2::TTableName;

/// Both become folders of HBase's file system, whose names have at most 255 bytes.
const MAX_BYTES: usize = 255;

/// HBase's own namespace.
const SYSTEM: &str = "hbase";

/// A table within its namespace: `hedgerow:rows`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableName {
    /// With the colon between both.
    full: String,
    namespace_bytes: usize,
}

impl TableName {
    /// A name of letters, digits, `_`, `-` and `.`, which begins with none of the last two, in a
    /// namespace of letters, digits and `_`.
    ///
    /// # Errors
    ///
    /// [`Error::BadName`] for other names, and for HBase's own namespace.
    pub fn new(namespace: &str, name: &str) -> Result<TableName> {
        check_namespace(namespace)?;
        if let Some(why) = fault_of_table(name) {
            let name = name.to_owned();
            let what = "table";
            return Err(Error::BadName { name, what, why });
        }
        Ok(TableName {
            full: format!("{namespace}:{name}"),
            namespace_bytes: namespace.len(),
        })
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.full[..self.namespace_bytes]
    }

    /// The name within the namespace.
    pub fn name(&self) -> &str {
        &self.full[self.namespace_bytes + 1..]
    }

    /// What calls for rows name the table by: namespace, colon, name.
    pub(crate) fn full(&self) -> &[u8] {
        self.full.as_bytes()
    }

    /// What calls that manage tables name it by.
    pub fn to_thrift(&self) -> TTableName {
        TTableName {
            ns: Some(self.namespace().as_bytes().to_vec()),
            qualifier: self.name().as_bytes().to_vec(),
        }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

/// Fails with [`Error::BadName`] unless a namespace of ours can have this name.
pub(crate) fn check_namespace(namespace: &str) -> Result<()> {
    match fault_of_namespace(namespace) {
        Some(why) => Err(Error::BadName {
            name: namespace.to_owned(),
            what: "namespace",
            why,
        }),
        None => Ok(()),
    }
}

/// What is wrong about the name of a namespace, if something is.
pub(crate) fn fault_of_namespace(name: &str) -> Option<&'static str> {
    let is_legal = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    match name {
        "" => Some("the namespace is missing"),
        SYSTEM => Some("the namespace hbase is HBase's own"),
        _ if name.len() > MAX_BYTES => Some("a namespace has at most 255 bytes"),
        _ if !name.bytes().all(is_legal) => {
            Some("a namespace has only letters from a to z, digits and _")
        }
        _ => None,
    }
}

fn fault_of_table(name: &str) -> Option<&'static str> {
    let is_legal = |c: u8| c.is_ascii_alphanumeric() || b"_-.".contains(&c);
    match name {
        "" => Some("it is empty"),
        "zookeeper" => Some("HBase reserves it"),
        _ if name.len() > MAX_BYTES => Some("it has more than 255 bytes"),
        _ if !name.bytes().all(is_legal) => {
            Some("it may have only letters from a to z, digits, _, - and .")
        }
        _ if name.starts_with(['.', '-']) => Some("it begins with a dot or a dash"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_apart() {
        let name = TableName::new("hedgerow_1", "rows-2.a").expect("a legal name");
        assert_eq!(name.to_string(), "hedgerow_1:rows-2.a");
        assert_eq!((name.namespace(), name.name()), ("hedgerow_1", "rows-2.a"));
        let thrift = name.to_thrift();
        assert_eq!(thrift.ns.as_deref(), Some(&b"hedgerow_1"[..]));
        assert_eq!(thrift.qualifier, b"rows-2.a");
    }

    #[test]
    fn names_that_hbase_refuses_are_refused() {
        let long = "n".repeat(256);
        for namespace in ["", "hbase", "a-b", "a:b", "ä", "a b", "a/b", &long] {
            let error = TableName::new(namespace, "rows").expect_err(namespace);
            assert!(error.to_string().contains("namespace"), "{error}");
        }
        for name in ["", ".meta", "-a", "a:b", "a b", "ä", "zookeeper", &long] {
            let error = TableName::new("hedgerow", name).expect_err(name);
            assert!(error.to_string().contains("table"), "{error}");
        }
    }
}
