//! Experiments of the Masstree paper (Mao, Kohler, Morris, EuroSys 2012).

mod columns;
mod fig10;
mod fig11;
mod fig13;
mod fig8;
mod fig9;
mod flexibility;
mod layers;
mod operations;
mod persistence;
mod retries;
mod search;
mod served;
mod server;
mod server_idle;
mod server_scans;

use crate::experiment::Experiment;

pub use fig8::comparison;

/// All of them, in the paper's order.
pub fn all() -> Vec<Box<dyn Experiment>> {
    vec![
        Box::new(search::Search),
        Box::new(persistence::Persistence),
        Box::new(operations::experiment()),
        Box::new(retries::Retries),
        Box::new(fig8::experiment()),
        Box::new(layers::Layers),
        Box::new(served::Served),
        Box::new(flexibility::experiment()),
        Box::new(fig9::experiment()),
        Box::new(fig10::experiment()),
        Box::new(fig11::Skew),
        Box::new(fig13::Servers),
        Box::new(columns::Columns),
        Box::new(server::RESP),
        Box::new(server::MEMCACHED),
        Box::new(server_scans::Scans),
        Box::new(server_idle::Idle),
    ]
}
