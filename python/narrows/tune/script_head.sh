#!/bin/sh
# Made by narrows tune. It changes what is listed below and nothing else:
#   sh THIS apply | revert | verify
set -u
LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin
export LC_ALL PATH
made=''

say() { printf '%s\n' "$*"; }
fail() { printf '%s\n' "$*" >&2; }

# Settings: name, value.
sysctl_path() { printf '/proc/sys/'; printf '%s\n' "$1" | tr . /; }
# One space between numbers, as the plan has it.
sysctl_get() { tr '\t' ' ' < "$(sysctl_path "$1")"; }
sysctl_set() { printf '%s\n' "$2" > "$(sysctl_path "$1")" 2> /dev/null && [ "$(sysctl_get "$1")" = "$2" ]; }

# Modules.
module_get() {
  if grep -q "^$1 " /proc/modules 2> /dev/null || [ -d "/sys/module/$1" ]; then echo loaded; else echo absent; fi
}
module_set() {
  if [ "$2" = loaded ]; then modprobe "$1" 2> /dev/null || insmod "$1"; else rmmod "$1" 2> /dev/null; fi
  # One that is in use stays; it does nothing by itself.
  [ "$2" = absent ] || [ "$(module_get "$1")" = "$2" ]
}

# Queue disciplines: interface, class.
root_kind() { tc qdisc show dev "$1" 2> /dev/null | sed -n 's/^qdisc \([a-z0-9_]*\) [0-9a-f]*: root .*/\1/p' | head -n 1; }
root_handle() { tc qdisc show dev "$1" 2> /dev/null | sed -n 's/^qdisc [a-z0-9_]* \([0-9a-f]*:\) root .*/\1/p' | head -n 1; }
leaf_kind() {
  tc qdisc show dev "$1" 2> /dev/null | sed -n "s/^qdisc \([a-z0-9_]*\) [0-9a-f]*: parent $2 .*/\1/p" | head -n 1
}
# Interface, kind, handle. What the kernel attached itself (handle 0:) comes back when the other one goes.
qdisc_back() {
  if [ "$3" != 0: ]; then
    tc qdisc replace dev "$1" root handle "$3" "$2"
    return
  fi
  tc qdisc del dev "$1" root
  [ -z "$2" ] || [ "$(root_kind "$1")" = "$2" ] || tc qdisc replace dev "$1" root "$2"
}

# What comes in: interface, the device that it is led through. The kind of what shapes it, nothing, or `other`.
ingress_get() {
  if tc filter show dev "$1" parent ffff: 2> /dev/null | grep -q "to device $2)"; then
    root_kind "$2"
  elif ip link show dev "$2" > /dev/null 2>&1 || tc qdisc show dev "$1" | grep -qE '^qdisc (ingress|clsact) '; then
    echo other
  fi
}

# What belongs to a host is changed from its own network only: from the initial network namespace, which alone has this
# setting, or from that of a whole container, in which process 1 is. Others share their files with a host, for example
# the hosts of `narrows shell`, whose process 1 is narrows-host.
own=no
if [ -e /proc/sys/net/core/netdev_max_backlog ]; then own=yes; fi
for mark in /run/systemd/container /.dockerenv /run/.containerenv; do
  [ "$(cat /proc/1/comm 2> /dev/null)" = narrows-host ] && break
  [ -e "$mark" ] && [ "$(readlink /proc/1/ns/net 2> /dev/null)" = "$(readlink /proc/self/ns/net)" ] && own=yes
done
of_the_host() { [ $own = yes ] || return 3; }

# Files: path, text, mode. A link is not followed; the new file takes the old one's place in one step.
file_get() { if [ -f "$1" ] && ! [ -h "$1" ]; then cat "$1"; fi; }
file_set() {
  [ -h "$1" ] && { fail "$1 is a link; not changed"; return 1; }
  mkdir -p "${1%/*}" || return 1
  rm -f "$1.narrows-new"
  (set -C; umask 022; printf '%s' "$2" > "$1.narrows-new") || return 1
  chmod "$3" "$1.narrows-new" && mv -f "$1.narrows-new" "$1"
}
file_drop() { [ -h "$1" ] && { fail "$1 is a link; not changed"; return 1; }; rm -f "$1"; }

# Is `$1`, what is there, the old `$2` or the new `$3`? 0: old, so there is something to do; 1: new; 2: neither.
# 3: it belongs to the host, and this is the network namespace of something else.
judge() {
  [ "$1" = "$3" ] && return 1
  [ "$1" = "$2" ] && return 0
  return 2
}
