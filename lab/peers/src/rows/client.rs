//! What a client of a server of rows does.

use hedgerow_lab_contender::StoreError;

/// One connection to a server that holds a table of pairs. Every call is one statement, and a
/// commit of its own where it writes.
pub trait RowClient: Send {
    /// Inserts pairs whose keys are not there, all with one statement.
    ///
    /// # Errors
    ///
    /// What the server or the connection says.
    fn load(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<(), StoreError>;

    /// The value under `key`.
    ///
    /// # Errors
    ///
    /// What the server or the connection says.
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Inserts a pair; an error where the key is there.
    ///
    /// # Errors
    ///
    /// What the server or the connection says.
    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError>;

    /// Replaces the value under `key`; whether it was there.
    ///
    /// # Errors
    ///
    /// What the server or the connection says.
    fn update(&mut self, key: &[u8], value: &[u8]) -> Result<bool, StoreError>;

    /// Removes `key`; whether it was there.
    ///
    /// # Errors
    ///
    /// What the server or the connection says.
    fn remove(&mut self, key: &[u8]) -> Result<bool, StoreError>;
}
