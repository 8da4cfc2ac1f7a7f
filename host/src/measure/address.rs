//! Resolves the address of the server. The error for an unknown name suggests what the user may
//! have meant.

use crate::error::HostError;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

/// An address family.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Reads `4` or `6`.
    pub fn parse(text: &str) -> Result<Family, String> {
        match text {
            "4" => Ok(Family::V4),
            "6" => Ok(Family::V6),
            _ => Err(format!("--ip {text}: write 4 or 6")),
        }
    }
    fn has(self, address: &SocketAddr) -> bool {
        address.is_ipv6() == (self == Family::V6)
    }
}

/// The first address of a host; of the family `of`, if it is given.
pub fn resolve(host: &str, port: u16, of: Option<Family>) -> Result<SocketAddr, HostError> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let fits = |address: &SocketAddr| of.is_none_or(|family| family.has(address));
    let found = (bare, port)
        .to_socket_addrs()
        .map(|mut list| list.find(fits));
    let why = match (found, of) {
        (Ok(Some(address)), _) => return Ok(address),
        (Ok(None), Some(Family::V4)) => "it has no IPv4 address; omit --ip 4".to_string(),
        (Ok(None), Some(Family::V6)) => "it has no IPv6 address; omit --ip 6".to_string(),
        (Ok(None), None) => "this name has no address".to_string(),
        (Err(error), _) => error.to_string(),
    };
    let meant = meant(host).map_or(String::new(), |meant| format!("; {meant}"));
    Err(HostError::Missing(format!("{host}: {why}{meant}")))
}

/// A suggestion for an unknown name that looks like a host with its port, a URL, or a file.
fn meant(host: &str) -> Option<String> {
    let url = ["http://", "https://"]
        .iter()
        .find_map(|scheme| host.strip_prefix(scheme));
    if let Some(rest) = url {
        let bare = rest.split('/').next().unwrap_or(rest);
        return Some(format!(
            "a URL is not supported here; write the host: {bare}"
        ));
    }
    if let Some((bare, port)) = host.rsplit_once(':') {
        let whole = !bare.contains(':') || bare.ends_with(']');
        if whole && !bare.is_empty() && port.parse::<u16>().is_ok() {
            return Some(format!("write the port as an option: {bare} --port {port}"));
        }
    }
    let scenario = if host.ends_with(".toml") {
        host.to_string()
    } else {
        format!("{host}.toml")
    };
    if Path::new(&scenario).is_file() {
        return Some(format!(
            "to measure a scenario, write its file: narrows measure {scenario}"
        ));
    }
    Path::new(host)
        .is_file()
        .then(|| "it is a file, but the name of a scenario ends in .toml".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_requested_family() {
        let at = |host: &str, of| resolve(host, 1, of).map(|found| found.is_ipv6()).ok();
        assert_eq!(at("127.0.0.1", Some(Family::V4)), Some(false));
        assert_eq!(at("[::1]", Some(Family::V6)), Some(true));
        assert_eq!(at("127.0.0.1", Some(Family::V6)), None);
        assert_eq!(at("::1", None), Some(true));
        assert!(Family::parse("5").is_err());
    }

    #[test]
    fn a_port_or_a_url_in_the_host_is_explained() {
        let told = |host: &str| meant(host).unwrap();
        assert_eq!(
            told("h.example:5201"),
            "write the port as an option: h.example --port 5201"
        );
        assert_eq!(
            told("[2001:db8::1]:80"),
            "write the port as an option: [2001:db8::1] --port 80"
        );
        assert_eq!(
            told("http://h.example/large.iso"),
            "a URL is not supported here; write the host: h.example"
        );
        assert_eq!([meant("h.example"), meant("2001:db8::1")], [None, None]);
    }

    #[test]
    fn a_file_name_in_place_of_a_host_is_explained() {
        let folder = std::env::temp_dir().join(format!("narrows-address-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["path.toml", "plain"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let at = |name: &str| folder.join(name).to_str().unwrap().to_string();
        let told = ["path", "path.toml", "plain", "absent"].map(|name| meant(&at(name)));
        std::fs::remove_dir_all(&folder).unwrap();
        let scenario = Some(format!(
            "to measure a scenario, write its file: narrows measure {}",
            at("path.toml")
        ));
        assert_eq!(told[..2], [scenario.clone(), scenario]);
        let file = "it is a file, but the name of a scenario ends in .toml";
        assert_eq!(told[2..], [Some(file.to_string()), None]);
    }
}
