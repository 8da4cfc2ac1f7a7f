"""The statistical part of the tests: compares the installed narrows with Linux, papers and theory.

    make validate                                     all parts; writes validation/REPORT.md
    python -m validation --only A,D --seeds 5         some families of the stored cases
    python -m validation --part cliff                 one part
    python -m validation --cases 'C-bbr-*' --verbose  every metric side by side

| file | contents |
|---|---|
| `stored` | the recorded cases of Linux, and their metrics in a run of narrows |
| `linux` | part: runs these cases and counts agreements, also of Linux and of trivial models |
| `agreement` | `make agree`; part `engines`: compares the simulator with stored runs of an engine |
| `papers` | part: repeats the published maps of BBR, BBRv2 and CUBIC |
| `cliff` | part: searches the random loss at which BBR collapses |
| `path_models`, `path_models_live`, `path_models_shared` | path models against known true paths |
| `cross` | the program that sends and receives cross traffic on emulated paths |
| `advise` | `make advice`: recommendations compared with later results |
| `advise_linux`, `advise_live` | results of congestion controls on Linux, for `advise` |
| `published_linux`, `published_jitter` | published paths on Linux 6.12, and with variable RTTs |
| `cliff_parts` | the causes of an early collapse of BBR |
| `digest` | digests of every shipped scenario and 200 generated ones, to detect changes |
| `asked` | functions that their commands share |
| `explained` | disagreements and the evidence that explains them |
| `report` | `REPORT.md` and the summary on the terminal |

Agreement with Linux has one definition, `narrows_core::metrics::compare`, which the Rust test of
the stored cases also uses. A part whose congestion control or queue discipline this version does
not have is left out, and the report states it.
"""

import sys
from types import TracebackType


def _in_a_line(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """The `sys.excepthook` of the commands: for Ctrl-C it prints `stopped` and no traceback."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("stopped\n")
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _in_a_line
