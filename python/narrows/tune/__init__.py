"""Audits the settings of a host that affect its goodput and latency, and changes them so that the
changes can be reverted.

| module | holds |
|---|---|
| `facts` | the facts about a host, read from the collector's text |
| `collect` | the collector: one POSIX script, run here, over SSH, or on a directory tree |
| `findings` | the rules of the audit, which turn facts into findings |
| `kernels` | the features of Linux releases, and the releases of distributions |
| `plan`, `planner` | the format of a plan, and how a plan is made |
| `script` | a plan as a POSIX script |
| `diff` | a plan as text for users |
| `persist` | the files that keep changes after a reboot |
| `render` | an audit as text |
| `command`, `changing`, `with_` | `narrows tune`, `narrows with` |
"""
