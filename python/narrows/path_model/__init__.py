"""The twin: a path that would have shown what a measurement saw, as a `[path]` that `narrows run`
takes.

Of each way that was loaded: its rate and whether that varies, the depth of its buffer or the law
that keeps it short, fair queueing or not, a policer or not, losses by chance; and the base round
trip, traces of others' traffic, what became of ECN and DSCP. Everything says how sure it is, and
what a measurement cannot tell is said to be unknown: a depth behind an AQM, a rate that was never
reached.

How it is found: `signs` are the statistics of a load, `fit` asks the simulator which path shows the
same ones; where both ways were loaded at once, `both` simulates both hops together. The best
explanations are then simulated with other seeds (`doubt`): a measurement that differs from these
simulations by more than they differ from each other is not explained, and the kind of queue, the
rate, the depth and the losses cannot be told. Random loss is reported only where a hop without it
explains clearly less. Traffic of others is excluded or found by `others`; where it can be neither,
the rate and the depth have no upper end.

Intervals are how far off the truth the estimates were on paths drawn at random, whose truth is
known (`validation/twin.py` writes `data/twin.json`), in units of what limits each measurement: the
spread of the rates that simulations of the best hop show, frames, and by how much idle round trips
differ. The instrument itself says what it adds to a round trip. Simulations end at `CEILING`
simulated packets; a model that reached it says so.
"""

from narrows.path_model.features import longest, signs
from narrows.path_model.fit import Guess, bits
from narrows.path_model.inference import CALIBRATION, CHANGES, FAMILIES, SHARE, infer
from narrows.path_model.known import Known
from narrows.path_model.model import Twin, Way

__all__ = [
    "CALIBRATION",
    "CHANGES",
    "FAMILIES",
    "SHARE",
    "Guess",
    "Known",
    "Twin",
    "Way",
    "bits",
    "infer",
    "longest",
    "signs",
]
