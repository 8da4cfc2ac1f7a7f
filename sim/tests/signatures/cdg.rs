//! CDG reduces its window when the RTT grows, long before the buffer is full.

use super::run;

#[test]
fn no_packet_is_lost_and_the_queue_stays_short_in_a_buffer_that_reno_fills() {
    let alone = |cc: &str| {
        run(&format!(
            "duration = \"20s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\nbuffer = \
             \"2bdp\"\n[[flow]]\ncc = \"{cc}\"\n"
        ))
    };
    let (cdg, reno) = (alone("cdg"), alone("reno"));
    assert!(cdg.queue.delay_ms.p50 < 15.0, "{}", cdg.queue.delay_ms.p50);
    assert!(
        reno.queue.delay_ms.p50 > 40.0,
        "{}",
        reno.queue.delay_ms.p50
    );
    assert_eq!(cdg.flows[0].retransmits, 0);
    assert!(reno.flows[0].retransmits > 0);
    assert!(
        cdg.flows[0].goodput_mbit > 14.0,
        "{}",
        cdg.flows[0].goodput_mbit
    );
}
