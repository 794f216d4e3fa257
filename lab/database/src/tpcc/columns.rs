//! The nine tables of clause 1.3, as rows of words.
//!
//! ```text
//!   numbers (one word each) │ texts, one after the other, each in whole words, padded with NUL
//! ```
//!
//! Amounts of money are in cents, taxes and discounts in ten-thousandths, both signed. Where the
//! specification has a null, there is a 0.

/// A table of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Warehouses.
    Warehouse,
    /// Districts, ten a warehouse.
    District,
    /// Customers.
    Customer,
    /// Payments.
    History,
    /// Orders that are not delivered yet.
    NewOrder,
    /// Orders.
    Order,
    /// Lines of orders.
    OrderLine,
    /// Items for sale.
    Item,
    /// Items in warehouses.
    Stock,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Warehouse,
        Self::District,
        Self::Customer,
        Self::History,
        Self::NewOrder,
        Self::Order,
        Self::OrderLine,
        Self::Item,
        Self::Stock,
    ];

    /// The name in the specification, in small letters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Warehouse => "warehouse",
            Self::District => "district",
            Self::Customer => "customer",
            Self::History => "history",
            Self::NewOrder => "new-order",
            Self::Order => "order",
            Self::OrderLine => "order-line",
            Self::Item => "item",
            Self::Stock => "stock",
        }
    }

    /// Words of a row.
    #[must_use]
    pub fn words(self) -> usize {
        match self {
            Self::Warehouse => warehouse::WORDS,
            Self::District => district::WORDS,
            Self::Customer => customer::WORDS,
            Self::History => history::WORDS,
            Self::NewOrder => new_order::WORDS,
            Self::Order => order::WORDS,
            Self::OrderLine => order_line::WORDS,
            Self::Item => item::WORDS,
            Self::Stock => stock::WORDS,
        }
    }
}

/// A column of text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text {
    /// Its first word.
    pub(crate) at: usize,
    /// Most bytes.
    pub(crate) bytes: usize,
}

impl Text {
    /// The n-th of texts of these widths behind so many numbers.
    const fn nth(numbers: usize, widths: &[usize], nth: usize) -> Self {
        let (mut at, mut text) = (numbers, 0);
        while text < nth {
            at += widths[text].div_ceil(8);
            text += 1;
        }
        let bytes = if nth < widths.len() { widths[nth] } else { 0 };
        Self { at, bytes }
    }

    /// Words that it takes.
    pub(crate) const fn words(self) -> usize {
        self.bytes.div_ceil(8)
    }

    /// Stores a text, cut to the column's width.
    pub(crate) fn store(self, row: &mut [u64], text: &[u8]) {
        let words = self.encode(text);
        row[self.at..self.at + words.len()].copy_from_slice(&words);
    }

    /// A text as the words of this column.
    pub(crate) fn encode(self, text: &[u8]) -> Vec<u64> {
        let mut bytes = vec![0; self.words() * 8];
        let len = text.len().min(self.bytes);
        bytes[..len].copy_from_slice(&text[..len]);
        let words = bytes.chunks_exact(8);
        words
            .map(|word| {
                word.iter()
                    .rev()
                    .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
            })
            .collect()
    }

    /// The text of the words of this column.
    pub(crate) fn decode(self, word: impl Fn(usize) -> u64) -> Vec<u8> {
        let words = self.at..self.at + self.words();
        let mut bytes: Vec<u8> = words.flat_map(|at| word(at).to_le_bytes()).collect();
        let len = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        bytes.truncate(len);
        bytes
    }
}

/// Makes a module of the columns of a table: numbers, then texts with their most bytes.
macro_rules! columns {
    ($module:ident: $($number:ident)*; $($text:ident $bytes:literal)*) => {
        // Transactions do not read every column that the specification wants.
        #[allow(dead_code, non_camel_case_types, clippy::upper_case_acronyms)]
        pub(crate) mod $module {
            use super::Text;

            enum Number { $($number,)* End }
            enum Texts { $($text,)* End }
            const WIDTHS: &[usize] = &[$($bytes),*];
            $(pub(crate) const $number: usize = Number::$number as usize;)*
            $(pub(crate) const $text: Text =
                Text::nth(Number::End as usize, WIDTHS, Texts::$text as usize);)*
            pub(crate) const WORDS: usize =
                Text::nth(Number::End as usize, WIDTHS, Texts::End as usize).at;
        }
    };
}

columns!(warehouse: ID TAX YTD; NAME 10 STREET_1 20 STREET_2 20 CITY 20 STATE 2 ZIP 9);
columns!(district: ID W_ID TAX YTD NEXT_O_ID;
    NAME 10 STREET_1 20 STREET_2 20 CITY 20 STATE 2 ZIP 9);
// `NAME` is the number from 0 to 999 that `LAST` is made of.
columns!(customer: ID D_ID W_ID NAME BAD_CREDIT CREDIT_LIM DISCOUNT BALANCE YTD_PAYMENT PAYMENT_CNT
    DELIVERY_CNT SINCE;
    FIRST 16 MIDDLE 2 LAST 16 STREET_1 20 STREET_2 20 CITY 20 STATE 2 ZIP 9 PHONE 16 DATA 500);
columns!(history: C_ID C_D_ID C_W_ID D_ID W_ID DATE AMOUNT; DATA 24);
columns!(new_order: O_ID D_ID W_ID;);
columns!(order: ID D_ID W_ID C_ID ENTRY_D CARRIER_ID OL_CNT ALL_LOCAL;);
columns!(order_line: O_ID D_ID W_ID NUMBER I_ID SUPPLY_W_ID DELIVERY_D QUANTITY AMOUNT;
    DIST_INFO 24);
columns!(item: ID IM_ID PRICE; NAME 24 DATA 50);
columns!(stock: I_ID W_ID QUANTITY YTD ORDER_CNT REMOTE_CNT;
    DIST_01 24 DIST_02 24 DIST_03 24 DIST_04 24 DIST_05 24 DIST_06 24 DIST_07 24 DIST_08 24
    DIST_09 24 DIST_10 24 DATA 50);

/// The text of a stock row for a district.
pub(crate) fn stock_dist(district: u64) -> Text {
    let words = stock::DIST_02.at - stock::DIST_01.at;
    Text {
        at: stock::DIST_01.at + (district as usize - 1) * words,
        bytes: stock::DIST_01.bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_lie_behind_numbers_and_each_other() {
        assert_eq!(warehouse::NAME.at, 3);
        assert_eq!(warehouse::STREET_1.at, 5);
        assert_eq!(warehouse::WORDS, 3 + 2 + 3 + 3 + 3 + 1 + 2);
        assert_eq!(new_order::WORDS, 3);
        assert_eq!(stock_dist(10).at, stock::DIST_10.at);
        let mut row = vec![7; history::WORDS];
        history::DATA.store(&mut row, b"twelve bytes");
        assert_eq!(history::DATA.decode(|at| row[at]), b"twelve bytes");
        assert_eq!(row[history::AMOUNT], 7);
        history::DATA.store(&mut row, &[b'x'; 30]);
        assert_eq!(history::DATA.decode(|at| row[at]), [b'x'; 24]);
    }
}
