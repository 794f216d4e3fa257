//! Experiments of "Getting to the Root of Concurrent Binary Search Tree Performance" (Arbel-Raviv,
//! Brown and Morrison, USENIX ATC 2018).

mod batches;
mod best;
mod database_run;
mod fig1;
mod fig2;
mod fig4;
mod fig5;
mod fig8;
mod fig9;
mod forms;
mod layouts;
mod locks;
mod microbenchmark;
mod segregation;
mod table3;
mod tpcc_full;

use crate::experiment::Experiment;

/// All of them.
pub fn all() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = vec![
        Box::new(fig1::experiment()),
        Box::new(fig2::experiment()),
        Box::new(table3::experiment()),
        Box::new(fig4::experiment()),
        Box::new(fig5::experiment()),
        Box::new(fig8::experiment()),
        Box::new(fig9::experiment()),
        Box::new(segregation::Segregation),
        Box::new(tpcc_full::experiment()),
        Box::new(locks::experiment()),
        Box::new(batches::experiment()),
        Box::new(best::experiment()),
        Box::new(microbenchmark::experiment()),
    ];
    all.extend(layouts::experiments());
    all
}
