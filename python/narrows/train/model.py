"""The types of the JSON of `narrows train`, of its journal, and of its tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from typing_extensions import NotRequired


class StepsJson(TypedDict):
    """Geometric steps of a value of an action: ±`first`, ±`first` · `factor` and so on."""

    first: float
    factor: float
    count: int
    least: float
    most: float


class NetworkJson(TypedDict):
    """The network model. A range is a list of its ends; a specimen is drawn from it uniformly."""

    rate_mbit: list[float]
    rtt_ms: list[float]
    senders: list[int]
    on_s: float
    off_s: float
    duration_s: float
    buffer: str
    queue: str


class ObjectiveJson(TypedDict):
    """The objective `U_alpha(throughput) − delta · U_beta(delay)`."""

    alpha: float
    beta: float
    delta: float


class ShortlistJson(TypedDict):
    """All candidates run on `specimens`; the best `keep` of them run on all specimens."""

    specimens: int
    keep: int


class SearchJson(TypedDict):
    """The settings of the search."""

    seed: int
    specimens: int
    epochs_per_split: int
    multiple: StepsJson
    increment: StepsJson
    intersend: StepsJson
    shortlist: NotRequired[ShortlistJson]


class TrainingJson(TypedDict):
    """A training file."""

    title: str
    network: NetworkJson
    objective: ObjectiveJson
    search: SearchJson


class TaskJson(TypedDict):
    """The evaluation of a tree on some specimens of a round."""

    training: TrainingJson
    round: str
    tree: str
    specimens: list[int]
    uses: bool


class UseJson(TypedDict):
    """The use of a rule: number of samples, and the median of each signal of the memory."""

    rule: int
    count: int
    medians: list[float]


class ResultJson(TypedDict):
    """The result of a task: a score for each specimen, CPU time, and the used rules."""

    scores: list[float]
    cpu_s: float
    uses: NotRequired[list[UseJson]]


class StepJson(TypedDict):
    """A step of the search."""

    step: int
    did: str
    rule: int | None
    rules: int
    epoch: int
    score: float
    cpu_s: float


class TrainedJson(TypedDict):
    """The result of a training, as `narrows train remy --json` prints it."""

    title: str
    training_sha256: str
    tree_sha256: str
    steps: list[StepJson]
    rules: int
    cpu_s: float
    score_before: float
    score_after: float
    specimens: int
    file: str
