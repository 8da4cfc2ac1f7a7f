"""Infers a path model from a measurement: a `[path]` section that `narrows run` accepts and whose
simulation reproduces the measurement.

The model has for each loaded direction the rate and its variation, the buffer size or the AQM, fair
queueing, a policer and random loss. It also has the base RTT, cross traffic, and the treatment of
ECN and DSCP. Each quantity has an interval, or a reason why it is unknown. Examples of unknown
quantities are the buffer size behind an AQM and the rate of a link that was never full.

Method: `features` computes the statistics of a load. `fit` searches for a path with the same
statistics in the simulator. If both directions were loaded at once, `both` simulates both hops
together. `doubt` simulates the best candidates with other seeds. A measurement is unexplained if
its distance from these simulations is much larger than their distance from each other. Queue
discipline, rate, buffer size and loss are then unknown. The model has random loss only if a hop
without random loss explains the measurement clearly worse. `others` detects or excludes cross
traffic. Unless cross traffic is excluded, the intervals of rate and buffer size have no upper end.

The intervals are the errors of the estimates on random paths with known properties
(`validation/path_models.py` writes `data/path_model.json`). Their units are the limits of each
measurement: the spread of simulated rates, the size of a frame, and the spread of idle RTTs. The
measurement reports the delay that its own programs add to an RTT; the interval of the base RTT
includes this delay. The search ends at `CEILING` simulated packets, and the model then reports that
it ended there.
"""

from narrows.path_model.features import features_of, longest
from narrows.path_model.fit import Guess, bits
from narrows.path_model.inference import CALIBRATION, CHANGES, CLEAR, FAMILIES, SHARE, infer
from narrows.path_model.known import Known
from narrows.path_model.model import DirectionModel, PathModel

__all__ = [
    "CALIBRATION",
    "CHANGES",
    "CLEAR",
    "FAMILIES",
    "SHARE",
    "DirectionModel",
    "Guess",
    "Known",
    "PathModel",
    "bits",
    "features_of",
    "infer",
    "longest",
]
