#!/bin/sh
# What a host is and does to its own traffic, as text. It reads and prints; it changes nothing, needs no privilege and
# nothing but a POSIX shell (dash, busybox). Run here, over `ssh HOST sh`, or on a tree:  sh collect.sh /some/tree
#
# A section begins with `@ NAME WORDS`; each line of its content follows a `|`. Files come as `path:line`.
root=${1:-/}
PATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin
LC_ALL=C
export PATH LC_ALL

mark() { sed 's/^/|/'; }
has() { command -v "$1" > /dev/null 2>&1; }
# `path:line` of each that can be read. With /dev/null there are always two names, so that grep tells them.
files() { echo "@ files $1"; shift; grep -s '' /dev/null "$@" | mark; }
lines() { echo "@ files $1"; shift; wanted=$1; shift; grep -sE "$wanted" /dev/null "$@" | mark; }
list() { echo "@ list $1"; [ -d "$1" ] && ls -1 "$1" 2> /dev/null | mark; }
# A program's output, where it is there and this is the host itself and not a tree.
say() {
  has "$1" || { echo "@ lacks $1"; return; }
  echo "@ says $*"
  "$@" 2> /dev/null < /dev/null | head -n 6000 | mark
}

system() {
  echo "@ collector 1"
  echo "@ who"
  [ "$root" = / ] && echo "|uid $(id -u)" && echo "|machine $(uname -m)"
  [ -w proc/sys/net/ipv4/tcp_congestion_control ] && echo "|writes sysctl"
  [ -d proc/sys/net/core ] && ! [ -e proc/sys/net/core/default_qdisc ] && echo "|no default_qdisc"
  [ "$root" = / ] && netns
  for one in .dockerenv run/.containerenv proc/vz proc/bc run/systemd/system usr/lib/systemd/systemd-sysctl \
    lib/systemd/systemd-sysctl etc/init.d/sysctl run/NetworkManager/NetworkManager.pid usr/sbin/opkg bin/opkg usr/bin/apk \
    sbin/uci run/systemd/netif/state etc/network/interfaces etc/netplan; do
    [ -e "$one" ] && echo "|there /$one"
  done
  files system proc/sys/kernel/osrelease proc/sys/kernel/hostname proc/version etc/os-release etc/openwrt_release \
    etc/openwrt_version etc/debian_version proc/1/cgroup run/systemd/container proc/self/uid_map proc/sys/kernel/random/boot_id
  files machine sys/class/dmi/id/sys_vendor sys/class/dmi/id/product_name sys/hypervisor/type \
    sys/devices/system/cpu/online sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor \
    sys/devices/system/cpu/cpu0/cpufreq/scaling_driver sys/devices/system/cpu/cpuidle/current_driver \
    sys/devices/system/clocksource/clocksource0/current_clocksource
  echo "@ files cpu"
  grep -sE '^(flags|model name|system type|machine)' /dev/null proc/cpuinfo | sort -u | head -n 3 | mark
  lines capabilities '^Cap(Eff|Bnd)' proc/self/status
}

# Files for the next boot belong to the initial network namespace, which alone has this setting, or to that of a whole
# container: process 1 is in it, and a container manager has left a mark. Whoever may not see process 1 cannot tell.
# Process 1 on a host of `narrows shell` is narrows-host.
netns() {
  [ -d proc/sys/net/core ] || return
  if [ -e proc/sys/net/core/netdev_max_backlog ]; then echo "|netns initial"; return; fi
  first=$(readlink /proc/1/ns/net 2> /dev/null)
  own=$(readlink /proc/self/ns/net 2> /dev/null)
  marked=no
  for one in run/systemd/container .dockerenv run/.containerenv; do [ -e "$one" ] && marked=yes; done
  [ "$(cat /proc/1/comm 2> /dev/null)" = narrows-host ] && marked=no
  if [ $marked = yes ] && [ -n "$first" ] && [ "$first" = "$own" ]; then
    echo "|netns container"
  elif [ $marked = no ] || [ -n "$first" ] || [ "$(id -u)" = 0 ]; then
    echo "|netns other"
  fi
}

kernel() {
  release=$(cat proc/sys/kernel/osrelease 2> /dev/null)
  # A release is part of a path below.
  case $release in '' | */* | .*) release=none ;; esac
  lines loaded '^(tcp_|sch_|cls_u32|act_mirred|ifb|mac80211|ath|mt76|iwl)' proc/modules
  for dir in "lib/modules/$release" "usr/lib/modules/$release"; do
    lines loadable '^[^:]*/(tcp_[a-z0-9]+|sch_[a-z0-9_]+|cls_u32|act_mirred|ifb)\.ko' "$dir/modules.dep"
    lines builtin '/(tcp_[a-z0-9]+|sch_[a-z0-9_]+|cls_u32|act_mirred|ifb)\.ko' "$dir/modules.builtin"
    for one in "$dir"/tcp_*.ko "$dir"/sch_*.ko "$dir"/cls_u32.ko "$dir"/act_mirred.ko "$dir"/ifb.ko; do [ -f "$one" ] && echo "@ module $one"; done
  done
  [ -d "lib/modules/$release" ] && echo "@ modules there"
  options='CONFIG_(TCP_CONG|DEFAULT_TCP_CONG|NET_SCH|NET_CLS_U32|NET_ACT_MIRRED|IFB=|DEFAULT_NET_SCH|HZ=|BQL|INET_DIAG|MODULES|SECCOMP|CGROUP_BPF|BPF_SYSCALL|NET_NS)'
  lines config "$options" "boot/config-$release" "lib/modules/$release/config"
  if [ -r proc/config.gz ]; then
    echo "@ config /proc/config.gz"
    { gzip -dc proc/config.gz || zcat proc/config.gz; } 2> /dev/null | grep -E "$options" | mark
  fi
}

settings() {
  cd "$root" && cd proc/sys 2> /dev/null || return
  files sysctl net/core/default_qdisc net/core/*mem_max net/core/*mem_default net/core/netdev_max_backlog \
    net/core/netdev_budget* net/core/somaxconn net/core/busy_* net/ipv4/tcp_*congestion_control net/ipv4/tcp_ecn* \
    net/ipv4/tcp_[rw]mem net/ipv4/tcp_mem net/ipv4/tcp_moderate_rcvbuf net/ipv4/tcp_mtu_probing net/ipv4/tcp_base_mss \
    net/ipv4/tcp_window_scaling net/ipv4/tcp_sack net/ipv4/tcp_timestamps net/ipv4/tcp_slow_start_after_idle \
    net/ipv4/tcp_notsent_lowat net/ipv4/tcp_limit_output_bytes net/ipv4/tcp_pacing_*_ratio net/ipv4/tcp_adv_win_scale \
    net/ipv4/tcp_no_metrics_save net/ipv4/ip_forward net/ipv4/ip_no_pmtu_disc net/ipv4/udp_mem net/ipv6/conf/all/forwarding
  cd "$root" || exit
}

boot() {
  for dir in etc/sysctl.d run/sysctl.d usr/local/lib/sysctl.d usr/lib/sysctl.d lib/sysctl.d etc/modules-load.d \
    etc/modules.d usr/lib/sysctl.d etc/systemd/network run/systemd/network usr/lib/systemd/network; do list "$dir"; done
  lines boot '^[[:space:]]*-?net[./](core|ipv4)[./]' etc/sysctl.conf etc/sysctl.d/*.conf run/sysctl.d/*.conf \
    usr/local/lib/sysctl.d/*.conf usr/lib/sysctl.d/*.conf lib/sysctl.d/*.conf
  lines modules '(tcp_|sch_)' etc/modules etc/modules-load.d/*.conf etc/modules.d/*
  for one in etc/sysctl.d/*.conf; do
    [ -h "$one" ] && echo "@ link $one $(readlink "$one" 2> /dev/null)"
  done
  lines networkd '^(\[|Name=|MACAddress=|Parent=|TCPCongestionControlAlgorithm=|Bandwidth=|Destination=)' \
    etc/systemd/network/*.network run/systemd/network/*.network usr/lib/systemd/network/*.network \
    etc/systemd/network/*.network.d/*.conf run/systemd/network/*.network.d/*.conf
  lines links '^NETWORK_FILE=' run/systemd/netif/links/*
  files sqm etc/config/sqm
  files own etc/sysctl.d/99-narrows.conf etc/sysctl.d/99-zz-narrows.conf etc/modules-load.d/narrows.conf \
    etc/udev/rules.d/99-narrows-*.rules etc/systemd/network/*.network.d/99-narrows.conf \
    etc/hotplug.d/iface/99-narrows etc/modules.d/99-narrows
  lines packages '^(Package: |P:)(kmod-tcp-|kmod-sched|sqm-scripts|tc-|ip-full|kmod-ifb|ethtool)' usr/lib/opkg/status lib/apk/db/installed
}

interfaces() {
  for dev in sys/class/net/*; do
    [ -e "$dev/ifindex" ] || [ -e "$dev/mtu" ] || continue
    name=${dev##*/}
    echo "@ interface $name"
    [ -e "$dev/device" ] && echo "|device"
    [ -d "$dev/wireless" ] || [ -e "$dev/phy80211" ] && echo "|wireless"
    [ -d "$dev/bridge" ] && echo "|bridge"
    [ -e "$dev/tun_flags" ] && echo "|tun"
    [ -e "$dev/master" ] && echo "|port"
    grep -s '' /dev/null "$dev/mtu" "$dev/operstate" "$dev/carrier" "$dev/speed" "$dev/type" "$dev/flags" \
      "$dev/tx_queue_len" "$dev/ifindex" "$dev/address" "$dev/uevent" "$dev/device/uevent" "$dev/statistics/tx_bytes" \
      "$dev/statistics/tx_dropped" "$dev/gro_flush_timeout" "$dev/threaded" "$dev/phy80211/name" \
      "$dev"/queues/tx-[0-9]*/byte_queue_limits/limit "$dev"/queues/tx-[0-9]*/byte_queue_limits/limit_max | mark
    for queue in "$dev"/queues/tx-[0-9]*; do [ -e "$queue" ] && echo "|queue ${queue##*/}"; done
  done
  files devices proc/net/dev
  files wireless proc/net/wireless sys/kernel/debug/ieee80211/*/airtime_flags sys/kernel/debug/ieee80211/*/aql_enable \
    sys/kernel/debug/ieee80211/*/aql_txq_limit sys/kernel/debug/ieee80211/*/aqm
}

# What sockets use, and not whom they talk to.
sockets() {
  has ss || { echo "@ lacks ss"; return; }
  echo "@ sockets"
  ss -tin 2> /dev/null < /dev/null | grep '^[[:space:]]' | head -n 4000 | mark
}

programs() {
  say tc -s qdisc show
  say ip -o -4 route show
  say ip -o -6 route show
  sockets
  for dev in sys/class/net/*; do
    [ -e "$dev/device" ] || continue
    name=${dev##*/}
    # A name that a program would take for an option, or could not be told in a line, is left out.
    case $name in -* | *[!A-Za-z0-9_.@-]*) continue ;; esac
    if has ethtool; then
      for what in -i -k -g -c; do say ethtool "$what" "$name"; done
    fi
    if [ -d "$dev/wireless" ] || [ -e "$dev/phy80211" ]; then
      say iw dev "$name" link
      say iw dev "$name" info
    fi
  done
  has ethtool || echo "@ lacks ethtool"
  for phy in sys/class/ieee80211/*; do [ -e "$phy" ] && say iw phy "${phy##*/}" info; done
  say systemd-detect-virt
}

# Other network namespaces: their own settings and sockets. Only root may look into them.
spaces() {
  own=$(readlink /proc/self/ns/net 2> /dev/null | tr -dc 0-9)
  list /run/netns
  has nsenter && has ss || return
  [ "$(id -u)" = 0 ] || return
  ls -l /proc/[0-9]*/ns/net 2> /dev/null | sed -n 's|.*/proc/\([0-9]*\)/ns/net -> net:\[\([0-9]*\)\]|\2 \1|p' | sort -k1,1n -k2,2n |
    awk '$1 != last { print; last = $1 }' | head -n 65 | while read -r space pid; do
    [ "$space" = "$own" ] && continue
    echo "@ space $space $pid"
    { nsenter -t "$pid" -n cat /proc/sys/net/ipv4/tcp_congestion_control
      nsenter -t "$pid" -n ss -tin | grep '^[[:space:]]'; } 2> /dev/null < /dev/null | head -n 2000 | mark
  done
}

main() {
  cd "$root" || exit 2
  root=$PWD
  system
  kernel
  settings
  boot
  interfaces
  if [ "$root" = / ]; then
    programs
    spaces
  fi
  echo "@ end"
}

# The whole script is read before anything runs that could read from stdin.
main < /dev/null
