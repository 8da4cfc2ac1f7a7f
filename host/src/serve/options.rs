//! The options of `narrows-host serve`, and the unit for systemd.

use super::confine::User;
use super::limits::Limits;
use crate::latency::answer::Answers;
use crate::latency::exchange::Stall;
use crate::latency::options::stall;
use crate::latency::policy::Policy;
use crate::protocols::handshake::canonical;
use crate::protocols::wire::PORT;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// How it is called.
pub fn usage() -> String {
    let limits = Limits::help();
    format!(
        "\
narrows-host serve [options]          the far end of `narrows measure`, and of plain iperf3 clients

  --port N            TCP and UDP; 5201
  --bind ADDRESS      of this machine; all of them
  --token TOKEN       who does not know it is refused (iperf3: --extra-data TOKEN); or in \
  $NARROWS_TOKEN
  --token-file FILE   the same, from the first line of a file
  --public ADDRESS    another address at which clients reach this host, through a NAT in front of \
  it, with :PORT where that
                      differs; needed with a token; may be repeated
  --metrics ADDR:PORT counters for Prometheus, at /metrics; none
  --xdp DEVICE        answer datagrams to one more port inside the kernel, as they come over this \
  device; needs root
  --xdp-port N        that port; 5207
  --echo PORT         send every datagram to this port back as it came; none
  --stamp PORT        reflect STAMP (RFC 8762), usually at 862; none
  --irtt PORT         answer irtt clients, usually at 2112; none
  --board PORT        answer `narrows latency --speaks board`; none
  --policy P          how this host serves the threads that answer; default
  --stall SPAN@SPAN   they stand still for so long so often, to see who is blamed: 4ms@100ms
  --user USER         user to become once the sockets are open, a name or a number; root only \
  [default: 65520]
  --net-admin         keep CAP_NET_ADMIN: clients may use every loaded congestion control, and \
  make the kernel forget what it
                      remembers of them; root only
  --systemd-unit      print a unit for systemd, and end
  --limits            print all limits as JSON, and end
  --tied              end with the process that started this one

Limits:
{limits}"
    )
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where.
    pub bind: IpAddr,
    /// Was that asked for?
    pub bound: bool,
    /// TCP and UDP.
    pub port: u16,
    /// Who does not know it is refused.
    pub token: Option<String>,
    /// Addresses at which clients reach this host through a NAT, and their ports where they differ
    /// from ours.
    pub publics: Vec<(IpAddr, Option<u16>)>,
    /// Limits.
    pub limits: Limits,
    /// Where counters are told.
    pub metrics: Option<SocketAddr>,
    /// The device whose datagrams the kernel answers, and their port.
    pub xdp: Option<String>,
    /// See [`Options::xdp`].
    pub xdp_port: u16,
    /// Who else is answered, and where.
    pub answers: Vec<(Answers, u16)>,
    /// How threads that answer are served.
    pub policy: Policy,
    /// They stand still now and then.
    pub stall: Option<Stall>,
    /// Whom root becomes; a user that nobody has without.
    pub user: Option<User>,
    /// Clients may choose any loaded congestion control and make the kernel forget them.
    pub net_admin: bool,
    /// Only print the unit.
    pub unit: bool,
    /// Only print the limits.
    pub show_limits: bool,
    /// End with the parent.
    pub tied: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            bind: Ipv6Addr::UNSPECIFIED.into(),
            bound: false,
            port: PORT,
            token: None,
            publics: Vec::new(),
            limits: Limits::default(),
            metrics: None,
            xdp: None,
            xdp_port: XDP_PORT,
            answers: Vec::new(),
            policy: Policy::default(),
            stall: None,
            user: None,
            net_admin: false,
            unit: false,
            show_limits: false,
            tied: false,
        }
    }
}

impl Options {
    /// Where clients reach this host through a NAT, if it listens at `port`.
    pub fn public(&self, port: u16) -> Vec<SocketAddr> {
        let whole =
            |(ip, other): &(IpAddr, Option<u16>)| SocketAddr::new(*ip, other.unwrap_or(port));
        self.publics.iter().map(whole).map(canonical).collect()
    }
}

/// Where the kernel answers: beside iperf3's port and those that are registered next to it.
const XDP_PORT: u16 = 5207;
/// The shortest token: eight characters are not guessed over a network.
const TOKEN: usize = 8;

fn token(text: &str) -> Result<Option<String>, String> {
    let text = text.trim();
    match text.len() {
        0 => Err("an empty token: leave the option out, and everybody is welcome".into()),
        n if n < TOKEN => Err(format!(
            "a token of {n} characters is guessed soon; write {TOKEN} or more"
        )),
        _ => Ok(Some(text.into())),
    }
}

/// Of a command line. `known` answers variables of the environment.
pub fn read(
    mut args: impl Iterator<Item = String>,
    known: impl Fn(&str) -> Option<String>,
) -> Result<Options, String> {
    let mut asked = Options::default();
    if let Some(text) = known("NARROWS_TOKEN").filter(|text| !text.is_empty()) {
        asked.token = token(&text).map_err(|e| format!("NARROWS_TOKEN: {e}"))?;
    }
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--systemd-unit" => asked.unit = true,
            "--limits" => asked.show_limits = true,
            "--tied" => asked.tied = true,
            "--net-admin" => asked.net_admin = true,
            "--port" | "--bind" | "--token" | "--token-file" | "--public" | "--metrics"
            | "--xdp" | "--xdp-port" | "--echo" | "--stamp" | "--irtt" | "--board" | "--policy"
            | "--stall" | "--user" => {
                let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
                one(&mut asked, &arg, &value).map_err(|e| format!("{arg} {value}: {e}"))?;
            }
            limit if Limits::table().iter().any(|row| row.option == limit) => {
                let value = args.next().ok_or_else(|| format!("{arg} needs a value"))?;
                let set = asked.limits.set(limit, &value).unwrap_or(Ok(()));
                set.map_err(|e| format!("{arg} {value}: {e}"))?;
            }
            _ => return Err(format!("no option is called {arg}\n\n{}", usage())),
        }
    }
    Ok(asked)
}

fn one(asked: &mut Options, option: &str, value: &str) -> Result<(), String> {
    match option {
        "--port" => {
            asked.port = value
                .parse()
                .map_err(|_| "a port is a number up to 65535")?
        }
        "--xdp" => asked.xdp = Some(value.into()),
        "--xdp-port" => {
            let port = value.parse().ok().filter(|port| *port > 0);
            asked.xdp_port = port.ok_or("a port is a number from 1 to 65535")?;
        }
        "--bind" => {
            let text = value.trim_start_matches('[').trim_end_matches(']');
            asked.bind = text
                .parse()
                .map_err(|_| "an address, e.g. 192.0.2.1 or ::1")?;
            asked.bound = true;
        }
        "--echo" | "--stamp" | "--irtt" | "--board" => {
            let answers = match option {
                "--echo" => Answers::Echo,
                "--stamp" => Answers::Stamp,
                "--irtt" => Answers::Irtt,
                _ => Answers::Timed(None),
            };
            let port = value
                .parse()
                .map_err(|_| "a port is a number up to 65535")?;
            asked.answers.push((answers, port));
        }
        "--public" => {
            let whole = value
                .parse()
                .map(|at: SocketAddr| (at.ip(), Some(at.port())));
            let text = value.trim_start_matches('[').trim_end_matches(']');
            let public = whole.or_else(|_| text.parse().map(|ip| (ip, None)));
            asked
                .publics
                .push(public.map_err(|_| "an address, e.g. 192.0.2.1 or 192.0.2.1:5201")?);
        }
        "--user" => asked.user = Some(User::parse(value)?),
        "--policy" => asked.policy = Policy::parse(value)?,
        "--stall" => asked.stall = Some(stall(value)?),
        "--token" => asked.token = token(value)?,
        "--token-file" => {
            let text = std::fs::read_to_string(value).map_err(|e| e.to_string())?;
            asked.token = token(text.lines().next().unwrap_or_default())?;
        }
        _ => {
            asked.metrics = Some(
                value
                    .parse()
                    .map_err(|_| "an address and a port, e.g. 127.0.0.1:9101")?,
            )
        }
    }
    Ok(())
}

/// A unit for systemd, for a program at `program`: a user that exists only while it runs, and may
/// nothing but talk.
pub fn unit(program: &str) -> String {
    format!(
        "\
[Unit]
Description=narrows serve: the far end of network measurements
Documentation=https://github.com/narrows/narrows
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={program} serve
# Options: systemctl edit narrows-serve, e.g.
#   [Service]
#   ExecStart=
#   ExecStart={program} serve --rate 200Mbit --metrics 127.0.0.1:9101
# A token: one line NARROWS_TOKEN=... in this file, which only root can read.
EnvironmentFile=-/etc/narrows/serve.env
KillSignal=SIGINT
SuccessExitStatus=129 130 143
Restart=on-failure
DynamicUser=yes
LimitNOFILE=20000
MemoryMax=1G
CapabilityBoundingSet=
NoNewPrivileges=yes
UMask=0077
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
PrivateUsers=yes
ProtectProc=invisible
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RemoveIPC=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service seccomp landlock_create_ruleset landlock_add_rule \
landlock_restrict_self
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Options, String> {
        read(line.split_whitespace().map(String::from), |_| None)
    }

    #[test]
    fn a_line_is_read_and_a_mistake_names_its_fix() {
        let options = asked(
            "--port 0 --bind [::1] --rate 10Mbit --duration 30s --clients 3 --bytes 5MB \
                --token 12345678",
        )
        .unwrap();
        assert_eq!(
            (options.port, options.bound, options.limits.clients),
            (0, true, 3)
        );
        assert_eq!(options.limits.bytes.get(), 5_000_000);
        assert!(
            asked("--rate 10").unwrap_err().contains("write --rate"),
            "{}",
            asked("--rate 10").unwrap_err()
        );
        let options =
            asked("--public 192.0.2.1 --public [2001:db8::1]:7 --public 2001:db8::2").unwrap();
        let public = options.public(5201).into_iter().map(|at| at.to_string());
        assert_eq!(
            public.collect::<Vec<_>>(),
            ["192.0.2.1:5201", "[2001:db8::1]:7", "[2001:db8::2]:5201"]
        );
        let options = asked("--xdp eth0 --xdp-port 7").unwrap();
        assert_eq!(
            (options.xdp.as_deref(), options.xdp_port),
            (Some("eth0"), 7)
        );
        assert!(asked("--xdp-port 0").is_err());
        assert!(asked("--token abc").unwrap_err().contains("8 or more"));
        assert!(
            asked("--clients 0").is_err()
                && asked("--nonsense").is_err()
                && asked("--port").is_err()
        );
    }

    #[test]
    fn the_unit_names_the_program() {
        assert!(unit("/usr/bin/narrows-host").contains("ExecStart=/usr/bin/narrows-host serve\n"));
    }
}
