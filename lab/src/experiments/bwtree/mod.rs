//! Experiments of "InnoDB and the Bw-tree" (NTNU, 2019): from client to server over 1 to 96
//! connections, and the Bw-tree by itself.
//!
//! The thesis compares a Bw-tree behind a thin server, without log and transactions, with MySQL's
//! InnoDB behind its memcached plugin, on 96 cores with the client on another machine and all files
//! in a RAM disk. Here the server has one core and the client another, over loopback: what more
//! connections bring is work at hand whenever the server looks, and what they cost is switching
//! between them. Files are in a RAM disk where there is one and `--directory` names no other place.
//! InnoDB is MariaDB's, asked through the plugin HandlerSocket and in SQL by prepared statements,
//! each request a commit of its own.
//!
//! It is a closed loop: every connection has one request under way and sends the next when the
//! answer is in. No contender gets several requests at once from one connection, as text
//! protocols allow (`masstree/fig13` measures that), because SQL clients do not. Text protocols
//! are played by one thread that visits all connections, with requests built beforehand; the
//! client of SQL has a thread per connection and builds its packets meanwhile, so look at `client
//! busy`, the share of the client's core that was used, and at the server's own processor time.
//!
//! Keys are sent as 16 hexadecimal digits, which every protocol carries and which sort as the
//! numbers do. Updates change the value, and every answer is compared.

mod chains;
mod contenders;
mod durability;
mod epochs;
mod factors;
mod figures;
mod retries;
mod served;
mod table5;

use crate::experiment::Experiment;

/// All of them, in the thesis's order.
pub fn all() -> Vec<Box<dyn Experiment>> {
    let mut all = figures::all();
    all.push(Box::new(table5::Workers));
    all.push(Box::new(durability::Durability));
    all.push(Box::new(factors::experiment()));
    all.push(Box::new(chains::CHAINS));
    all.push(Box::new(chains::CHUNKS));
    all.push(Box::new(epochs::experiment()));
    all.push(Box::new(retries::Retries));
    all
}
