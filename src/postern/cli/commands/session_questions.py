"""`postern sessions questions` and `decide`: statements that guard rails hold until somebody has decided."""

from __future__ import annotations

from typing import Any

import click

from postern.cli.api import client
from postern.cli.output import emit, json_option, table
from postern.cli.rows import told
from postern.domain.text import one_line


@click.command()
@json_option
def questions(as_json: bool) -> None:
    """List statements that wait for a decision, the oldest first; with --json in full."""
    with client() as api:
        found = api.http.all("/questions")
    emit(found, as_json, _show)


def _show(found: list[dict[str, Any]]) -> None:
    rows = [
        [one["id"], one["connection"], one["asker_email"], one["until"], one["rule"], one_line(one["statement"])]
        for one in found
    ]
    table(["id", "connection", "asked by", "until", "rule", "statement"], rows, "No statement waits for a decision.")


@click.command()
@click.argument("question_id")
@click.option("--approve/--reject", "is_approved", required=True, default=None, help="Let it run, or refuse it.")
@click.option("--comment", default="", help="Shown to who sent the statement, where it is refused.")
@json_option
def decide(question_id: str, is_approved: bool, comment: str, as_json: bool) -> None:
    """Decide on a statement that waits; nobody decides on their own, unless the feature self-review is on.

    \b
    postern sessions questions
    postern sessions decide ID --approve
    postern sessions decide ID --reject --comment "use the clean-up job"
    """
    with client() as api:
        body = {"approve": is_approved, "comment": comment}
        done = api.http.call("POST", f"/questions/{question_id}/decision", body=body)
    told(done, as_json, f"{done['decision'].capitalize()}: what {done['asker_email']} sent to {done['connection']}.")
