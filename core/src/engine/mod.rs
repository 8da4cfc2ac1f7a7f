//! What every engine shares: the simulator, the live engine, and any that follow.
//!
//! | file | holds |
//! |---|---|
//! | `run` | [`Run`]: the result of a run, and its JSON document |

mod run;

pub use run::{path_figures, station_figures, Run};
