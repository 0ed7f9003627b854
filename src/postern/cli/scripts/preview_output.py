"""The preview of a script: what would be denied, held or warned about if it ran now."""

from __future__ import annotations

import sys
from typing import Any

import click

from postern.cli.lazy import FAILED
from postern.cli.printing import emit
from postern.domain.rules.script_preview import PreviewOutcome
from postern.domain.text import one_line, printable

_WORDS = {
    PreviewOutcome.ALLOW: "It would run.",
    PreviewOutcome.WARN: "It would run, with a warning.",
    PreviewOutcome.HOLD: "It would wait for a review.",
    PreviewOutcome.DENY: "It would be denied.",
}


def show_preview(preview: dict[str, Any], script: str, *, as_json: bool) -> None:
    """Print a preview, and exit with the code of a failure if the script would be denied."""
    emit(preview, as_json, lambda shown: _show(shown, script))
    if preview["outcome"] == PreviewOutcome.DENY:
        sys.exit(FAILED)


def _show(preview: dict[str, Any], script: str) -> None:
    review = preview["review"]
    if review["required"]:
        groups = " and ".join(" or ".join(demand["groups"]) or "no group" for demand in review["approvers"])
        click.echo(f"It needs a review first: {one_line(groups)}.")
    click.echo(_WORDS[PreviewOutcome(preview["outcome"])])
    for message in preview["messages"]:
        click.echo(f"  {printable(' '.join(filter(None, (message['message'], message['hint']))))}")
    for statement in preview["statements"]:
        start = statement["offset"]
        text = one_line(script[start : start + statement["length"]])
        shown = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
        line = script.count("\n", 0, start) + 1
        click.echo(f"line {line}: {statement['outcome']} ({', '.join(statement['effects'])}): {shown}")
    if preview["statements_truncated"]:
        click.echo("There are more statements, which are not listed.")
    problem = preview["syntax_error"]
    if problem is not None:
        offset = problem["offset"]
        where = "" if offset is None else f"line {script.count(chr(10), 0, offset) + 1}: "
        click.echo(f"{where}{printable(problem['message'])}")


_LONGEST = 80  # characters of a statement
