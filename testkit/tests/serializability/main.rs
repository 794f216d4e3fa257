//! The serializability checker is checked: histories made by hand for each phenomenon and its
//! nearest legal neighbour, every order of few transactions, and databases in memory that keep
//! what their isolation level promises, or break it in one way each.

mod databases;
mod permutations;
mod phenomena;
mod recordings;
mod subject;
