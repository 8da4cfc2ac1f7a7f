"""Looking at a host's own part in its speed and latency, and changing it so that it can be undone.

| module | holds |
|---|---|
| `facts` | what a host is and does, read from the collector's text |
| `collect` | the collector: one POSIX script, run here, over ssh, or on a tree |
| `findings` | what is to be said of it: a rule each |
| `kernels` | which release of Linux can what, and who ships which |
| `plan` | the changes, exactly |
| `script` | a plan as a POSIX script |
| `diff` | a plan as a person reads it |
| `persist` | the files that make it outlast a reboot |
| `show` | an audit in words |
| `command`, `with_` | `narrows tune`, `narrows with` |
"""
