//! Numbers that our server tells of its indexes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::script::resp_array;
use crate::Result;

const TIMEOUT: Duration = Duration::from_secs(60);

/// What the index of the first database counts under this name; none where it has no such counter
/// or nothing in it.
///
/// # Errors
///
/// A connection that fails.
pub fn index_counter(address: SocketAddr, name: &str) -> Result<Option<f64>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let mut request = Vec::new();
    resp_array(&mut request, &[b"INFO", b"index"]);
    resp_array(&mut request, &[b"QUIT"]);
    stream.write_all(&request)?;
    let mut said = Vec::new();
    stream.read_to_end(&mut said)?;
    Ok(counter_in(&String::from_utf8_lossy(&said), name))
}

/// Indexes stand a line each: `index_NAME:index=bwtree,rows=5,retries=0`.
fn counter_in(said: &str, name: &str) -> Option<f64> {
    let mut lines = said.lines();
    let line = lines.find(|line| line.starts_with("index_"))?;
    let (_, numbers) = line.split_once(':')?;
    let mut numbers = numbers.split(',').filter_map(|one| one.split_once('='));
    let (_, value) = numbers.find(|(known, _)| *known == name)?;
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_found_by_its_whole_name() {
        let said = "$99\r\n# Index\r\ndefault_index:bwtree\r\n\
                    index_default:index=bwtree,rows=5,root_retries=1,retries=7\r\n\r\n";
        assert_eq!(counter_in(said, "retries"), Some(7.0));
        assert_eq!(counter_in(said, "root_retries"), Some(1.0));
        assert_eq!(counter_in(said, "index"), None);
        assert_eq!(counter_in(said, "splits"), None);
        assert_eq!(counter_in("# Index\r\n", "retries"), None);
    }
}
