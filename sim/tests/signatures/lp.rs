//! TCP-LP takes what another flow leaves over.

use super::run;

#[test]
fn beside_cubic_it_gives_way_and_reno_does_not() {
    let share = |cc: &str| {
        let run = run(&format!(
            "duration = \"40s\"\n[path]\nrate = \"20Mbit\"\nrtt = \"40ms\"\nbuffer = \"1bdp\"\n[[flow]]\ncc = \"cubic\"\n\
             [[flow]]\nid = \"it\"\ncc = {cc}\n"
        ));
        let goodput = |it: bool| -> f64 {
            let flows = run.flows.iter().filter(|f| (f.id == "it") == it);
            flows.map(|f| f.goodput_mbit).sum()
        };
        goodput(true) / (goodput(true) + goodput(false))
    };
    let lp = share("{ kind = \"lp\", stamp_offset = \"none\" }");
    let reno = share("\"reno\"");
    assert!(lp < 0.03, "{lp}");
    assert!(reno > 0.25, "{reno}");
}
