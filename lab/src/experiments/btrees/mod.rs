//! Experiments of "B-Trees Are Back" (Müller, Benson, Leis, SIGMOD 2025), and the durable
//! engines that its tree is to be compared with.

mod background;
mod contention;
mod durable;
mod fan_out;
mod fig11;
mod fig15;
mod fig16;
mod fig17;
mod fig18;
mod fig19;
mod fig9;
mod forms;
mod key_sets;
mod layouts;
mod payloads;
mod pool_sizes;
mod reads;
mod secondary;
mod served;
mod table1;
mod thresholds;

use crate::experiment::Experiment;

/// All of them, in the paper's order.
pub fn all() -> Vec<Box<dyn Experiment>> {
    vec![
        Box::new(layouts::fig7()),
        Box::new(fan_out::FanOut),
        Box::new(layouts::fig8()),
        Box::new(fig9::experiment()),
        Box::new(fig11::experiment()),
        Box::new(table1::Table1),
        Box::new(forms::Forms::Conversions),
        Box::new(forms::Forms::Leaves),
        Box::new(payloads::experiment()),
        Box::new(thresholds::experiment()),
        Box::new(background::Background),
        Box::new(layouts::fig14()),
        Box::new(fig15::experiment()),
        Box::new(secondary::experiment()),
        Box::new(fig16::experiment()),
        Box::new(fig17::experiment()),
        Box::new(fig18::experiment()),
        Box::new(fig19::experiment()),
        Box::new(pool_sizes::PoolSizes),
        Box::new(reads::Reads),
        Box::new(served::Served),
        Box::new(contention::Contention),
        Box::new(durable::experiment()),
    ]
}
