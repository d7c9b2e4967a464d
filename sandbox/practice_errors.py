"""The practice provider's error bodies: `{"error": {"code", "message", ...}}`."""

from __future__ import annotations

from sandbox.wire import Answer, Refusal, json_answer


def error_answer(status: int, code: str, message: str = "", **fields: object) -> Answer:
    return json_answer({"error": {"code": code, "message": message or code.replace("_", " "), **fields}}, status)


class PracticeRefusal(Refusal):
    """A refused call; no key stores it."""

    def __init__(self, status: int, code: str, message: str = "", **fields: object) -> None:
        super().__init__(error_answer(status, code, message, **fields))


def in_progress() -> Answer:
    return error_answer(409, "in_progress", "An earlier request is still being worked on")


def invalid(param: str, message: str) -> PracticeRefusal:
    return PracticeRefusal(400, "invalid_request", message, param=param)
