//! Counters of a server for Prometheus, in text format 0.0.4.

use portable_atomic::{AtomicU64, Ordering::Relaxed};
use std::fmt::Write as _;

macro_rules! counters {
    ($($name:ident $kind:literal $help:literal,)*) => {
        /// The counters since the start of the server, and the gauges, which also decrease.
        #[derive(Debug, Default)]
        pub struct Counters {
            $(#[doc = $help] pub $name: AtomicU64,)*
        }
        impl Counters {
            /// The text for Prometheus.
            pub fn to_text(&self) -> String {
                let mut text = String::new();
                $(
                    let name = concat!("narrows_serve_", stringify!($name));
                    // Writing to a String cannot fail.
                    let _ = writeln!(
                        text,
                        "# HELP {name} {}\n# TYPE {name} {}\n{name} {}",
                        $help, $kind, self.$name.load(Relaxed)
                    );
                )*
                text
            }
        }
    };
}

counters! {
    connections_total "counter" "TCP connections accepted",
    connections "gauge" "TCP connections open now, without load",
    clients "gauge" "Clients measuring now",
    narrows_clients_total "counter" "Clients with narrows' own protocol",
    iperf3_clients_total "counter" "Clients with iperf3's protocol",
    streams_total "counter" "Connections and datagram streams that carried load",
    up_bytes_total "counter" "Load received",
    down_bytes_total "counter" "Load sent",
    pings_total "counter" "Pings answered",
    kernel_answers_total "counter" "Datagrams answered by the kernel",
    refused_full_total "counter" "Refused: too many clients",
    refused_token_total "counter" "Refused: wrong or missing token",
    refused_limit_total "counter" "Refused or ended: a limit of duration, bytes or streams",
    dropped_garbage_total "counter" "Dropped: unknown protocol",
    dropped_timeout_total "counter" "Dropped: silent for too long",
    dropped_full_total "counter" "Dropped: too many half-open connections",
    dropped_datagrams_total "counter" "Datagrams of unknown senders without an answer",
    dropped_samples_total "counter" "Samples that a client did not fetch",
    socket_drops_total "counter" "Datagrams for which the socket had no room",
}

impl Counters {
    /// Increments a counter.
    pub fn more(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }
    /// Decrements a gauge.
    pub fn less(counter: &AtomicU64) {
        counter.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_its_three_lines() {
        let counters = Counters::default();
        Counters::more(&counters.pings_total);
        let text = counters.to_text();
        assert!(
            text.contains(
                "# TYPE narrows_serve_pings_total counter\nnarrows_serve_pings_total 1\n"
            )
        );
        assert_eq!(text.lines().count() % 3, 0);
    }
}
