"""How every command answers: a document for machines, lines for people, and one exit code for each kind of end."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from cli.failures import Failure, failure_of

Json = Annotated[bool, typer.Option("--json", help="One JSON document instead of text.")]
Asked = Callable[..., "Answer"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command found or did. `ok` false is an answer that ends with exit code 1."""

    document: Any
    lines: Sequence[str]
    ok: bool = True


def command(app: typer.Typer, name: str | None = None) -> Callable[[Asked], Asked]:
    """Register a function that returns an Answer as a command, with `--json` added to its options."""

    def register(asked: Asked) -> Asked:
        def run(*, as_json: bool, **arguments: Any) -> None:  # noqa: ANN401 (whatever `asked` takes)
            _end(asked, arguments, as_json)

        signature = inspect.signature(asked, eval_str=True)
        parameters = [*signature.parameters.values(), _json_parameter()]
        run.__name__, run.__doc__ = asked.__name__, asked.__doc__
        run.__dict__["__signature__"] = signature.replace(parameters=[_keyword(each) for each in parameters])
        app.command(name)(run)
        return asked

    return register


def _json_parameter() -> inspect.Parameter:
    return inspect.Parameter("as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json)


def _keyword(parameter: inspect.Parameter) -> inspect.Parameter:
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def _end(asked: Asked, arguments: dict[str, Any], as_json: bool) -> None:
    try:
        answer = asked(**arguments)
    except Exception as problem:
        failure = failure_of(problem)
        if failure is None:
            raise
        _fail(failure, as_json)
    typer.echo(_json(answer.document) if as_json else "\n".join(answer.lines))
    raise typer.Exit(0 if answer.ok else 1)


def _fail(failure: Failure, as_json: bool) -> None:
    """To standard error, so that standard output holds the answer or nothing."""
    typer.echo(_json(failure.document) if as_json else "\n".join(failure.lines), err=True)
    raise typer.Exit(failure.code) from None


def _json(document: Any) -> str:  # noqa: ANN401 (any document)
    return json.dumps(document, indent=2, default=str)
