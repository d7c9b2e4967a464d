"""Timeouts and retry policies of the engine, each with its reason."""

from __future__ import annotations

from datetime import timedelta

from temporalio.common import RetryPolicy

READ_RETRIES = RetryPolicy(
    initial_interval=timedelta(seconds=1), backoff_coefficient=2.0, maximum_interval=timedelta(seconds=15)
)
"""No limit of attempts: what is repeated is keyed, and the store being away must never end a run."""

ONE_ATTEMPT = RetryPolicy(maximum_attempts=1)
"""A send is never repeated by the engine: only a new permit allows the same bytes again."""

LOCAL_SECONDS = 5.0
"""Of a reading within a workflow task, which the engine expects back after ten; it is taken up again as an activity."""

AFTER_FAILED_STEP = timedelta(seconds=2)
"""A step that failed or timed out told nothing: the next call reads the store and goes by its evidence."""

LONGEST_FAILED_PAUSE = timedelta(minutes=1)
"""Ceiling of the pause that grows while a step keeps failing."""
