//! What new-order and payment compute, wherever their rows are.

use super::columns::customer;
use super::input::Payment;

/// What is left of a stock after an order, restocked when it runs low (clause 2.4.2.2).
pub(super) fn restocked(stock: u64, ordered: u64) -> u64 {
    match stock >= ordered + 10 {
        true => stock - ordered,
        false => stock + 91 - ordered,
    }
}

/// What a customer with bad credit has as data after a payment (clause 2.5.2.2).
pub(super) fn data_of_bad_credit(input: &Payment, customer: u64, data: &[u8]) -> Vec<u8> {
    let mut text = format!(
        "{customer} {} {} {} {} {} ",
        input.customer_district,
        input.customer_warehouse,
        input.district,
        input.warehouse,
        input.amount
    )
    .into_bytes();
    text.extend_from_slice(data);
    text.truncate(customer::DATA.bytes);
    text
}

/// Which of so many customers of one last name is meant: the middle one by first name, rounded up
/// (clause 2.5.2.2).
pub(super) fn middle(customers: usize) -> usize {
    customers.div_ceil(2).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stocks_and_names_are_as_specified() {
        assert_eq!(restocked(20, 10), 10);
        assert_eq!(restocked(19, 10), 100);
        assert_eq!([1, 2, 3, 4].map(middle), [0, 0, 1, 1]);
    }
}
