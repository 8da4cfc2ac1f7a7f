//! Illinois: the window grows fast while there is no queue, and slowly when there is one. A loss
//! without a queue reduces it little.

use super::epochs::{alone, epochs, typical};

#[test]
fn illinois_rises_fast_and_then_slowly() {
    let path = "rate = \"20Mbit\"\nrtt = \"50ms\"\nbuffer = \"1bdp\"";
    let come = |cc| typical(&epochs(&alone(cc, path, "40s")), |e| e.come);
    let (illinois, reno) = (come("illinois"), come("reno"));
    assert!(illinois > 0.7, "{illinois}");
    assert!((0.45..0.6).contains(&reno), "{reno}");
}

#[test]
fn illinois_bears_losses_without_a_queue() {
    let path = "rate = \"40Mbit\"\nrtt = \"40ms\"\nbuffer = \"1bdp\"\nloss = \"0.1%\"";
    let goodput = |cc| alone(cc, path, "20s").flows[0].goodput_mbit;
    let (illinois, reno) = (goodput("illinois"), goodput("reno"));
    assert!(illinois > 2.0 * reno, "{illinois} {reno}");
}
