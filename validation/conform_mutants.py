"""A plugin with eleven variants of Reno that each break one rule; `narrows conform` must detect
every one of them.

    narrows conform deaf --as reno --plugin validation/conform_mutants.py

The base class `Sound` follows RFC 5681 and passes all checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from narrows.models import CongestionControl

if TYPE_CHECKING:
    from narrows._core import Ack, Loss, Sent, Start, Window


class Sound(CongestionControl):
    """Reno of RFC 5681."""

    name = "sound"
    source = "RFC 5681"
    year = 2009
    growth = 1.0
    increase = 1.0
    factor = 0.5
    most = 1e9

    def on_ack(self, window: Window, ack: Ack) -> None:
        """Grows the window by slow start, and later by one packet per round trip."""
        if ack.may_grow and ack.cwnd_limited:
            each = self.growth if window.in_slow_start else self.increase / window.cwnd
            window.cwnd = min(self.most, window.cwnd + ack.delivered * each)

    def on_loss(self, window: Window, loss: Loss) -> None:
        """Halves the window."""
        window.ssthresh = max(2.0, window.cwnd * self.factor)


class Deaf(Sound):
    """It does not respond to losses."""

    name = "deaf"
    factor = 1.0


class Stubborn(Sound):
    """It keeps most of the window after a loss."""

    name = "stubborn"
    factor = 0.95


class Meek(Sound):
    """It keeps a quarter of the window after a loss."""

    name = "meek"
    factor = 0.25


class Hasty(Sound):
    """Its initial window has 100 packets."""

    name = "hasty"

    def on_start(self, window: Window, start: Start) -> None:
        """Sets the window."""
        window.cwnd = 100


class Steep(Sound):
    """Its slow start grows fourfold per round trip."""

    name = "steep"
    growth = 3.0


class Flat(Sound):
    """It has no slow start."""

    name = "flat"
    growth = 0.01


class Greedy(Sound):
    """It adds 20 packets per round trip."""

    name = "greedy"
    increase = 20.0


class Timid(Sound):
    """It adds a twentieth of a packet per round trip."""

    name = "timid"
    increase = 0.05


class Small(Sound):
    """Its window has at most 20 packets."""

    name = "small"
    most = 20.0


class Fixed(Sound):
    """Its window always has 1,000 packets."""

    name = "fixed"

    def on_start(self, window: Window, start: Start) -> None:
        """Sets the window."""
        window.cwnd = 1000

    def on_ack(self, window: Window, ack: Ack) -> None:
        """Sets the window."""
        window.cwnd = 1000

    def on_loss(self, window: Window, loss: Loss) -> None:
        """Keeps the window."""
        window.ssthresh = 1000


class Sleepy(Sound):
    """After an idle time, its window has one packet and stays so."""

    name = "sleepy"

    def __init__(self) -> None:
        """Initializes the state: no idle time has passed yet."""
        self.starts = 0

    def on_sent(self, window: Window, sent: Sent) -> None:
        """Counts transmissions without data in flight. These are the first transmission and the one
        after an idle time.
        """
        self.starts += 1

    def on_ack(self, window: Window, ack: Ack) -> None:
        """Keeps the window at one packet after an idle time."""
        if self.starts > 1:
            window.cwnd = 1
        else:
            super().on_ack(window, ack)
