"""The statistical tier: narrows, as it is installed, against Linux, against papers, against what
must follow.

    make validate                                    everything, and validation/REPORT.md python -m
    validation --only A,D --seeds 5        some families of the stored cases, on the terminal python
    -m validation --part cliff                one part python -m validation --cases 'C-bbr-*'
    --verbose every figure side by side

| file | holds |
|---|---|
| `stored` | the recorded cases of Linux, and a figure of theirs out of a run of ours |
| `linux` | the part that runs them: how many agree, Linux against itself,
the answers of who simulates nothing |
| `papers` | the part that repeats a published map with BBR and CUBIC |
| `cliff` | the part that looks for the loss at which BBR breaks down |
| `twin`, `twin_live`,
`twin_shared` | apart from these (`make twin`): the twin of paths whose truth is known |
| `cross` | the traffic of others on emulated paths |
| `advise` | apart from these (`make advice`): advice beside what then happens |
| `advise_linux`, `advise_live` | what congestion controls do on Linux, to judge advice by |
| `published_linux`,
`published_jitter` | published paths on Linux 6.12 itself; with round trips that vary |
| `cliff_parts` | what makes the cliff fall early |
| `digest` | apart from these: digests of every shipped scenario and 100 generated ones,
to detect changes |
| `asked` | what their commands share |
| `explained` | disagreements and the evidence that explains them |
| `report` | `REPORT.md` and the summary on the terminal |

What counts as agreement with Linux is one law, `narrows_core::figures::compare`, for this and for
the Rust test of the stored cases. A part whose congestion control or queue discipline this version
has not is left out and says so.
"""

import sys
from types import TracebackType


def _in_a_line(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Ctrl-C is no mistake, and has no traceback."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("stopped\n")
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _in_a_line
