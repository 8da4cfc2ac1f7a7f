//! NV keeps the link full with about ten packets in the queue.

use super::run;

#[test]
fn ten_packets_wait_in_a_buffer_that_reno_fills() {
    let alone = |cc: &str| {
        run(&format!(
            "duration = \"10s\"\nwarmup = \"5s\"\n[path]\nrate = \"20Mbit\"\nrtt = \
             \"40ms\"\nbuffer = \"4bdp\"\n\
             [[flow]]\ncc = \"{cc}\"\n"
        ))
    };
    let (nv, reno) = (alone("nv"), alone("reno"));
    // The transmission of a packet takes 0.6 ms.
    let packets = nv.queue.delay_ms.p50 / 0.6056;
    assert!((4.0..30.0).contains(&packets), "{packets}");
    assert!(
        reno.queue.delay_ms.p50 > 40.0,
        "{}",
        reno.queue.delay_ms.p50
    );
    assert!(
        nv.flows[0].goodput_mbit > 18.5,
        "{}",
        nv.flows[0].goodput_mbit
    );
}
