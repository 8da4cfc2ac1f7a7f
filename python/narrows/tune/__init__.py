"""Audits the settings of a host that affect its goodput and latency, and changes them so that the
changes can be reverted. The rules of audits and plans are in `core/src/tune`, which `narrows-host`
uses, too.

| module | holds |
|---|---|
| `facts` | the facts about a host, read from the collector's text |
| `collect` | runs the collector, a POSIX script, here, over SSH, or on a directory tree |
| `findings` | an audit of these facts |
| `kernels` | the features of Linux releases |
| `plan`, `planner` | the format of a plan, and a plan for a host |
| `script` | a plan as a POSIX script |
| `diff` | a plan as text for users |
| `render` | an audit as text |
| `command`, `changing`, `with_` | `narrows tune`, `narrows with` |
"""
