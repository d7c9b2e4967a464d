"""Search attributes of a run in Temporal: what can be filtered and listed there."""

from __future__ import annotations

import json
from typing import Any

from temporalio.common import SearchAttributeKey, SearchAttributePair, SearchAttributeUpdate, TypedSearchAttributes

from domain.execution import Directive, Start
from domain.identity import safe_key

PROCESS = SearchAttributeKey.for_keyword("Process")
BUSINESS_KEY = SearchAttributeKey.for_keyword("BusinessKey")
BUSINESS_STATE = SearchAttributeKey.for_keyword("BusinessState")
REASON_CODE = SearchAttributeKey.for_keyword("ReasonCode")
NEXT_OWNER = SearchAttributeKey.for_keyword("NextOwner")
INPUT_VERSION = SearchAttributeKey.for_int("InputVersion")
BUSINESS_DEADLINE = SearchAttributeKey.for_datetime("BusinessDeadline")


LARGEST_VALUE = 2048
"""Bytes of one attribute's value as JSON; a start with a larger one is refused, for ever."""


def listed_key(key: str) -> str:
    """The business key where an attribute can hold it, else as in the workflow id."""
    return key if len(json.dumps(key)) <= LARGEST_VALUE else safe_key(key)


def at_start(start: Start) -> TypedSearchAttributes:
    """What is known before the first step."""
    return TypedSearchAttributes(
        [
            SearchAttributePair(PROCESS, start.process),
            SearchAttributePair(BUSINESS_KEY, listed_key(start.business_key)),
            SearchAttributePair(BUSINESS_STATE, "queued"),
        ]
    )


def updates(told: Directive) -> list[SearchAttributeUpdate[Any]]:
    """The attributes as the store's answer has them."""
    return [
        BUSINESS_STATE.value_set(told.state),
        REASON_CODE.value_set(told.reason),
        INPUT_VERSION.value_set(told.input_version),
        NEXT_OWNER.value_set(told.next_owner) if told.next_owner else NEXT_OWNER.value_unset(),
        BUSINESS_DEADLINE.value_set(told.deadline) if told.deadline else BUSINESS_DEADLINE.value_unset(),
    ]
