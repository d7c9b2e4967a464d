"""The one map from our errors to Temporal's: what the engine retries, and what it is told instead."""

from __future__ import annotations

from temporalio.exceptions import ApplicationError

from domain.errors import CounterfoilError, ReadFailed

QUICK_READS = 3
"""Reads that the engine repeats by itself, seconds apart, before the run shows that it is retrying."""


def try_again(refused: ReadFailed) -> ApplicationError:
    """A read that may work in a moment. Messages hold codes only: exception texts end up in histories."""
    return ApplicationError(refused.code, type="ReadFailed", non_retryable=False)


def too_slow() -> ApplicationError:
    """Nothing was done: this step is to be an activity of its own."""
    return ApplicationError("too_slow", type="TooSlow", non_retryable=True)


def store_gone(away: Exception) -> ApplicationError:
    """The store cannot be reached: the type alone, since a driver's text quotes statements and rows."""
    return ApplicationError(type(away).__name__, type="StoreAway")


def defect(problem: Exception) -> ApplicationError:
    """Anything else: the type alone, since its text may hold values."""
    code = problem.code if isinstance(problem, CounterfoilError) else type(problem).__name__
    return ApplicationError(code, type="Defect")
