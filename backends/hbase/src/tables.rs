//! Calls for tables, namespaces and the cluster.
//!
//! HBase's master does them, some for many seconds: give them deadlines of a minute. What changes a
//! table is sent only once, so that a lost answer is [`Error::Unknown`]: ask then whether the table
//! exists.

use crate::calls::Calls;
use crate::error::{Error, Result};
use crate::retry::Repeat;
use crate::table_name::{TableName, check_namespace};
use crate::thrift2::{TNamespaceDescriptor, TTableDescriptor, TTableName, TThriftServerType};
use crate::wire::{Arguments, FLAG, INTEGER, TEXT, TEXTS, VOID, structure, structures};

fn table_call(method: &'static str, table: &TableName) -> Arguments {
    Arguments::of(method).structure(1, &table.to_thrift())
}

fn namespace_call(method: &'static str, namespace: &str) -> Arguments {
    Arguments::of(method).bytes(1, namespace.as_bytes())
}

/// Tables.
impl Calls<'_> {
    /// Whether there is such a table.
    pub fn table_exists(&self, table: &TableName) -> Result<bool> {
        self.read(table_call("tableExists", table), &FLAG)
    }

    /// Whether all regions of a table are served.
    pub fn is_table_available(&self, table: &TableName) -> Result<bool> {
        self.read(table_call("isTableAvailable", table), &FLAG)
    }

    /// How a table is made: its column families and attributes.
    pub fn table_descriptor(&self, table: &TableName) -> Result<TTableDescriptor> {
        self.read(table_call("getTableDescriptor", table), &structure())
    }

    /// Makes a table of one region. Refused with `TableExistsException` if there is such a table.
    pub fn create_table(&self, table: &TTableDescriptor) -> Result<()> {
        let arguments = Arguments::of("createTable").structure(1, table);
        self.write(arguments, &VOID, Repeat::OnlyIfUnsent)
    }

    /// Makes a table of several regions: the first, and one that begins with each of these keys,
    /// which ascend. Refused with `TableExistsException` if there is such a table.
    ///
    /// A gateway whose server reads one frame a call (`hsha`, `nonblocking` and the like in place
    /// of `threadpool`, the default) closes the connection, and makes no table.
    pub fn create_split_table(&self, table: &TTableDescriptor, keys: &[Vec<u8>]) -> Result<()> {
        let arguments = Arguments::of("createTable").structure(1, table);
        let arguments = arguments.keys_apart(2, keys);
        self.write(arguments, &VOID, Repeat::OnlyIfUnsent)
    }

    /// Deletes a table, which must be disabled.
    pub fn delete_table(&self, table: &TableName) -> Result<()> {
        let arguments = table_call("deleteTable", table);
        self.write(arguments, &VOID, Repeat::OnlyIfUnsent)
    }

    /// Deletes all rows of a table, which must be disabled, and enables it; with `keep_splits` it
    /// has the same regions afterwards.
    pub fn truncate_table(&self, table: &TableName, keep_splits: bool) -> Result<()> {
        let arguments = table_call("truncateTable", table).flag(2, keep_splits);
        self.write(arguments, &VOID, Repeat::OnlyIfUnsent)
    }

    /// Lets a table be used again. Refused with `TableNotDisabledException` if it can be.
    pub fn enable_table(&self, table: &TableName) -> Result<()> {
        let arguments = table_call("enableTable", table);
        self.write(arguments, &VOID, Repeat::OnlyIfUnsent)
    }

    /// Takes a table out of use. Refused with `TableNotEnabledException` if it is.
    pub fn disable_table(&self, table: &TableName) -> Result<()> {
        let arguments = table_call("disableTable", table);
        self.write(arguments, &VOID, Repeat::OnlyIfUnsent)
    }

    /// The tables of a namespace.
    pub fn tables_of_namespace(&self, namespace: &str) -> Result<Vec<TableName>> {
        check_namespace(namespace)?;
        let arguments = namespace_call("getTableNamesByNamespace", namespace);
        let names = self.read(arguments, &structures::<TTableName>())?;
        let table = |name: TTableName| {
            let name = String::from_utf8_lossy(&name.qualifier).into_owned();
            TableName::new(namespace, &name)
        };
        // Another program may have tables of names that this one never gives.
        Ok(names
            .into_iter()
            .filter_map(|name| table(name).ok())
            .collect())
    }
}

/// Namespaces and the cluster.
impl Calls<'_> {
    /// The names of all namespaces.
    pub fn namespaces(&self) -> Result<Vec<String>> {
        self.read(Arguments::of("listNamespaces"), &TEXTS)
    }

    /// A namespace and its settings.
    pub fn namespace_descriptor(&self, namespace: &str) -> Result<TNamespaceDescriptor> {
        let arguments = namespace_call("getNamespaceDescriptor", namespace);
        self.read(arguments, &structure())
    }

    /// Makes a namespace. Refused with `NamespaceExistException` if there is such a namespace.
    pub fn create_namespace(&self, namespace: &str) -> Result<()> {
        check_namespace(namespace)?;
        let descriptor = TNamespaceDescriptor::new(namespace.to_owned(), None);
        let arguments = Arguments::of("createNamespace").structure(1, &descriptor);
        self.write(arguments, &VOID, Repeat::OnlyIfUnsent)
    }

    /// Makes a namespace unless there is one; several clients may do so at once.
    pub fn ensure_namespace(&self, namespace: &str) -> Result<()> {
        check_namespace(namespace)?;
        let exists = || -> Result<bool> {
            let namespaces = self.namespaces()?;
            Ok(namespaces.iter().any(|name| name == namespace))
        };
        if exists()? {
            return Ok(());
        }
        match self.create_namespace(namespace) {
            Ok(()) => Ok(()),
            // Another client made it in between, or the answer was lost.
            Err(error @ (Error::Refused { .. } | Error::Unknown { .. })) => match exists() {
                Ok(true) => Ok(()),
                _ => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Deletes a namespace, which must have no tables.
    pub fn delete_namespace(&self, namespace: &str) -> Result<()> {
        check_namespace(namespace)?;
        let arguments = namespace_call("deleteNamespace", namespace);
        self.write(arguments, &VOID, Repeat::OnlyIfUnsent)
    }

    /// The cluster's id: one that it got when it was set up, and has for good.
    pub fn cluster_id(&self) -> Result<String> {
        self.read(Arguments::of("getClusterId"), &TEXT)
    }

    /// What the gateway is, by its own word; gateways of Thrift 1 are never asked anything else.
    pub fn server_type(&self) -> Result<TThriftServerType> {
        let kind = self.read(Arguments::of("getThriftServerType"), &INTEGER)?;
        Ok(TThriftServerType(kind))
    }
}
