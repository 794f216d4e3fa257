//! How large a database is.

use super::keys;
use crate::error::{Error, Result};

/// Districts of a warehouse.
pub(crate) const DISTRICTS: u64 = 10;

/// How large a database is. Less than a warehouse of the specification is no TPC-C; it is for
/// tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Warehouses; the paper has 48.
    pub warehouses: u64,
    /// Items, each in every warehouse's stock: 100,000.
    pub items: u64,
    /// Customers of a district, each with one order to begin with: 3000.
    pub customers: u64,
}

impl Size {
    /// The specification's, with so many warehouses.
    #[must_use]
    pub fn new(warehouses: u64) -> Self {
        Self {
            warehouses,
            items: 100_000,
            customers: 3000,
        }
    }

    /// A small part of the specification's.
    #[must_use]
    pub fn reduced(warehouses: u64) -> Self {
        Self {
            warehouses,
            items: 200,
            customers: 30,
        }
    }

    /// Whether keys have room for it.
    pub(crate) fn check(&self) -> Result<()> {
        let fits = (1..=keys::MOST_WAREHOUSES).contains(&self.warehouses)
            && (20..=keys::MOST_ITEMS).contains(&self.items)
            && (1..=keys::MOST_CUSTOMERS).contains(&self.customers);
        match fits {
            true => Ok(()),
            false => Err(Error::Usage(format!(
                "a TPC-C database has 1 to {} warehouses, 20 to {} items and 1 to {} customers of \
                 a district, not {self:?}",
                keys::MOST_WAREHOUSES,
                keys::MOST_ITEMS,
                keys::MOST_CUSTOMERS
            ))),
        }
    }

    /// Orders of a district to begin with.
    pub(crate) fn orders(&self) -> u64 {
        self.customers
    }

    /// Orders of a district that are delivered to begin with: the first 70 %.
    pub(crate) fn delivered_orders(&self) -> u64 {
        self.orders() - self.orders() * 3 / 10
    }

    /// What a district's customers have paid to begin with, in cents.
    pub(crate) fn district_ytd(&self) -> u64 {
        self.customers * 1000
    }

    pub(crate) fn all_districts(&self) -> u64 {
        self.warehouses * DISTRICTS
    }

    /// About how many rows all tables have to begin with.
    #[must_use]
    pub fn rows(&self) -> u64 {
        let of_district = 1 + self.customers * 2 + self.orders() * 11 + self.orders() / 3;
        self.items + self.warehouses * (1 + self.items + DISTRICTS * of_district)
    }
}
