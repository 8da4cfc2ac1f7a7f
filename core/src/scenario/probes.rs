//! The section `[[probe]]`, and the key `host` of flows and probes.

use super::dscp;
use super::error::{Collector, Fix};
use super::ip;
use super::links::Routes;
use super::parse::{optional, sections};
use super::read::Section;
use super::schema::Values;
use super::wifi::{self, Written};
use super::{ProbeKind, ProbeSpec, SectionNumber, Spacing};
use crate::packet::Ip;
use alloc::format;
use alloc::vec::Vec;

/// Returns the number of the far host; stations are hosts of their own.
pub(super) fn far_host(
    out: &mut Collector<'_>,
    s: &Section<'_>,
    values: &mut Values,
    wifi: bool,
) -> Option<u8> {
    if let Some(f) = s.field("host").filter(|_| wifi) {
        let problem =
            "cannot be combined with [wifi], whose stations are separate hosts; remove it";
        out.refuse(&f, problem, Fix::None);
        return None;
    }
    Some(values.take("host"))
}

const SPACINGS: [(&str, Spacing); 2] =
    [("constant", Spacing::Constant), ("random", Spacing::Random)];

pub(super) fn probes(
    out: &mut Collector<'_>,
    top: &Section<'_>,
    wifi: Option<&Written>,
    routes: &Routes,
) -> Option<Vec<ProbeSpec>> {
    let list = sections(out, top, "probe")?;
    let read: Vec<Option<Vec<ProbeSpec>>> = list
        .iter()
        .enumerate()
        .map(|(number, s)| {
            let chosen = routes.read(out, s);
            let mut values = out.values(s);
            let dscp = optional(s.field("dscp"), dscp::USUAL, |f| dscp::read(out, &f));
            let host = far_host(out, s, &mut values, wifi.is_some());
            let ip = optional(s.field("ip"), Ip::V4, |f| ip::read(out, &f));
            let stations = wifi::stations(out, s, wifi)?.into_iter();
            let (dscp, host, ip, chosen) = (dscp?, host?, ip?, chosen?);
            let route = chosen.for_one(&format!("ping{number}"), routes.seed);
            let kind = values.word("kind", &[("ping", ProbeKind::Ping)]);
            let interval = values.take("interval");
            let spacing = values.word("spacing", &SPACINGS);
            let keys = values.rest()?;
            let probe = |station| ProbeSpec {
                kind,
                interval,
                spacing,
                dscp,
                host,
                ip,
                station,
                route: route.clone(),
                section: SectionNumber(number),
                keys: keys.clone(),
            };
            Some(stations.map(probe).collect())
        })
        .collect();
    let read: Option<Vec<Vec<ProbeSpec>>> = read.into_iter().collect();
    read.map(|probes| probes.into_iter().flatten().collect())
}
