"""The practice provider's clock, which can be set ahead so that days pass within a test."""

from __future__ import annotations

from sandbox.clock import now_ms
from sandbox.practice_modes import Keys
from sandbox.settings import Knobs


class PracticeClock:
    """The sandbox's clock and the setting `practice_ahead`; with it the lengths that settings override."""

    def __init__(self, knobs: Knobs) -> None:
        self._knobs = knobs

    def now_ms(self) -> int:
        return now_ms() + int(self._knobs.now.practice_ahead * 1000)

    def window(self, keys: Keys) -> float:
        """Seconds for which a key is kept."""
        given = self._knobs.now.practice_window
        return keys.window if given is None else given

    def lag(self) -> float:
        """Seconds that the index of `lookup_lagged` is behind."""
        return self._knobs.now.practice_lag
