//! Reads the options of `narrows-host serve`, and writes its systemd unit.

use super::confine::User;
use super::limits::Limits;
use crate::arguments::{Argument, Arguments, first_line, wrong};
use crate::latency::answer::Answers;
use crate::latency::exchange::Stall;
use crate::latency::options::stall;
use crate::latency::policy::Policy;
use crate::measure::transport::terms::standard;
use crate::protocols::handshake::canonical;
use crate::protocols::wire::PORT;
use narrows_core::cc::CcKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// The usage text.
pub fn usage() -> String {
    let limits = Limits::help();
    format!(
        "\
narrows-host serve [options]
    Run the server for `narrows measure`, `narrows latency` and iperf3 clients.

Listening:
  --port N                 TCP and UDP port [default: 5201]
  --bind ADDRESS           address of this host [default: all]
  --public ADDRESS[:PORT]  address at which clients reach this host, if a NAT translates it; may be
                           repeated. Required with --token: the proof that a client knows the token
                           contains this address, so without it such clients are refused
  --metrics ADDR:PORT      serve counters for Prometheus at /metrics [default: off]

Access:
  --token TOKEN            refuse clients without TOKEN (iperf3: --extra-data TOKEN) [default:
                           $NARROWS_TOKEN, or accept every client]
  --token-file FILE        read the token from the first line of FILE
  --user USER              run as this user (name or number) after the sockets are open, instead of
                           as root; root only [default: 65520]
  --net-admin              keep CAP_NET_ADMIN: a client may select every loaded congestion control,
                           and may request that this kernel deletes the TCP metrics that it stores
                           about the address of the client (ip tcp_metrics); root only

Load:
  --plugin FILE            load the congestion controls of a shared library, for clients with
                           --transport udp; may be repeated

Responders of `narrows latency`:
  --xdp DEVICE             answer datagrams that arrive on DEVICE at the port of --xdp-port inside
                           the kernel; without token and limits; root only
  --xdp-port N             UDP port of --xdp [default: 5207]
  --echo PORT              return every datagram to its sender [default: off]
  --stamp PORT             reflect STAMP packets (RFC 8762), usually at 862 [default: off]
  --irtt PORT              answer irtt clients, usually at 2112 [default: off]
  --board PORT             answer `narrows latency --speaks board` [default: off]
  --policy P               scheduling policy of the responding threads [default: default]
  --stall SPAN@SPAN        4ms@100ms: suspend the responding threads for 4 ms in each 100 ms, to
                           check that `narrows latency` attributes the delay to this host

Output:
  --systemd-unit           print a unit for systemd and exit
  --limits                 print all limits as JSON and exit
  --tied                   end with the parent process

Limits:
{limits}"
    )
}

/// The options.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address at which the server listens.
    pub bind: IpAddr,
    /// Whether `bind` was given by an option.
    pub bound: bool,
    /// TCP and UDP port.
    pub port: u16,
    /// Token that clients must have; `None`: every client is accepted.
    pub token: Option<String>,
    /// Addresses at which clients reach this host through a NAT, each with its port; `None`: the
    /// port is `port`.
    pub publics: Vec<(IpAddr, Option<u16>)>,
    /// Limits of sessions, addresses and the host.
    pub limits: Limits,
    /// Address at which the counters are served.
    pub metrics: Option<SocketAddr>,
    /// Device at which an XDP program answers datagrams.
    pub xdp: Option<String>,
    /// UDP port of the XDP program.
    pub xdp_port: u16,
    /// Responders for `narrows latency` and other clients, and their UDP ports.
    pub answers: Vec<(Answers, u16)>,
    /// Scheduling policy of the responding threads.
    pub policy: Policy,
    /// Deliberate stalls of the responding threads.
    pub stall: Option<Stall>,
    /// User that root becomes; `None`: [`User::default`], an ID that no account has.
    pub user: Option<User>,
    /// Whether clients may select any loaded congestion control and delete cached metrics.
    pub net_admin: bool,
    /// Congestion controls of flows of datagrams.
    pub ccs: Vec<CcKind>,
    /// Shared libraries with more of them.
    pub plugins: Vec<PathBuf>,
    /// Whether to print the systemd unit and exit.
    pub unit: bool,
    /// Whether to print the limits and exit.
    pub show_limits: bool,
    /// Whether to end with the parent process.
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
            ccs: standard(),
            plugins: Vec::new(),
            unit: false,
            show_limits: false,
            tied: false,
        }
    }
}

impl Options {
    /// Addresses and ports at which clients reach this host through a NAT. `port`: the port at
    /// which the server listens.
    pub fn public(&self, port: u16) -> Vec<SocketAddr> {
        let whole =
            |(ip, other): &(IpAddr, Option<u16>)| SocketAddr::new(*ip, other.unwrap_or(port));
        self.publics.iter().map(whole).map(canonical).collect()
    }
}

/// Default port of the XDP program. It is neither iperf3's port nor one of the registered ports
/// next to that.
const XDP_PORT: u16 = 5207;
/// Smallest length of a token, bytes: eight characters cannot be guessed over a network.
const TOKEN: usize = 8;

fn token(text: &str) -> Result<Option<String>, String> {
    let text = text.trim();
    match text.len() {
        0 => Err("the token is empty; leave the option out to accept every client".into()),
        n if n < TOKEN => Err(format!(
            "a token of {n} characters is easily guessed; write {TOKEN} or more"
        )),
        _ => Ok(Some(text.into())),
    }
}

/// Reads the words of a command line. `known` returns the value of an environment variable.
pub fn read(
    args: impl Iterator<Item = String>,
    known: impl Fn(&str) -> Option<String>,
) -> Result<Options, String> {
    let mut asked = Options::default();
    if let Some(text) = known("NARROWS_TOKEN").filter(|text| !text.is_empty()) {
        asked.token = token(&text).map_err(|e| format!("NARROWS_TOKEN: {e}"))?;
    }
    let mut args = Arguments::new(args, usage());
    while let Some(arg) = args.next_argument()? {
        let option = match arg {
            Argument::Option(option) => option,
            Argument::Operand(word) => return Err(args.unexpected(&word)),
            Argument::Rest(_) => return Err(args.unexpected("--")),
        };
        match option.as_str() {
            "--systemd-unit" => asked.unit = true,
            "--limits" => asked.show_limits = true,
            "--tied" => asked.tied = true,
            "--net-admin" => asked.net_admin = true,
            _ => {
                let value = args.value()?;
                let limit = asked.limits.set(&option, &value);
                let done = limit.unwrap_or_else(|| one(&mut asked, &option, &value));
                done.map_err(|e| match option.as_str() {
                    // A token is a secret and does not appear in the error.
                    "--token" => format!("{option}: {e}"),
                    _ => wrong(&option, &value, &e),
                })?;
            }
        }
    }
    Ok(asked)
}

fn one(asked: &mut Options, option: &str, value: &str) -> Result<(), String> {
    match option {
        "--port" => {
            asked.port = value
                .parse()
                .map_err(|_| "not a port; write a number up to 65535")?
        }
        "--xdp" => asked.xdp = Some(value.into()),
        "--xdp-port" => {
            let port = value.parse().ok().filter(|port| *port > 0);
            asked.xdp_port = port.ok_or("not a port; write a number from 1 to 65535")?;
        }
        "--bind" => {
            let text = value.trim_start_matches('[').trim_end_matches(']');
            asked.bind = text
                .parse()
                .map_err(|_| "not an address; write, e.g., 192.0.2.1 or ::1")?;
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
                .map_err(|_| "not a port; write a number up to 65535")?;
            asked.answers.push((answers, port));
        }
        "--public" => {
            let whole = value
                .parse()
                .map(|at: SocketAddr| (at.ip(), Some(at.port())));
            let text = value.trim_start_matches('[').trim_end_matches(']');
            let public = whole.or_else(|_| text.parse().map(|ip| (ip, None)));
            asked.publics.push(
                public.map_err(|_| "not an address; write, e.g., 192.0.2.1 or 192.0.2.1:5201")?,
            );
        }
        "--user" => asked.user = Some(User::parse(value)?),
        "--policy" => asked.policy = Policy::parse(value)?,
        "--stall" => asked.stall = Some(stall(value)?),
        "--plugin" => asked.plugins.push(value.into()),
        "--token" => asked.token = token(value)?,
        "--token-file" => asked.token = token(&first_line(value)?)?,
        _ => {
            asked.metrics = Some(
                value
                    .parse()
                    .map_err(|_| "not an address and port; write, e.g., 127.0.0.1:9101")?,
            )
        }
    }
    Ok(())
}

/// A systemd unit for the program at `program`. The server runs as a dynamic user, with hardly any
/// access except to sockets.
pub fn unit(program: &str) -> String {
    format!(
        "\
[Unit]
Description=narrows serve: server for network measurements
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
        for (line, said) in [
            ("--stall 5ms@1ms", "--stall 5ms@1ms: not a duration"),
            ("--policy spin+rr", "--policy spin+rr: a real-time"),
            ("--rate 0bit", "--rate 0bit: too low; write --rate 8bit"),
            ("--memory 1B", "--memory 1B: too little; write --memory 1MB"),
        ] {
            let error = asked(line).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
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
