from __future__ import annotations

import click

from postern.cli.api import client
from postern.cli.printing import json_option, local_time
from postern.cli.row_commands import drop_missing, long_paging_options, page_of, print_result, show_page
from postern.cli.session_ids import session_argument
from postern.domain.issues.issue import IssueState

_COLUMNS = [
    ("session", "session_id"),
    ("created", "created_at"),
    ("state", "state"),
    ("issue", "key"),
    ("attempts", "attempts"),
    ("last error", "last_error"),
]
_PATH = "integrations/tracker/issues"


@click.command("issues")
@click.option("--state", type=click.Choice([*map(str, IssueState)]), help="Show only issues in this state.")
@long_paging_options
def issues(state: str | None, limit: int, offset: int, cursor: str | None, every: bool, as_json: bool) -> None:
    """List the issues of sessions, newest first.

    Issues in the state given_up stay until `postern admin tracker retry`.

    \b
    postern admin tracker issues --state given_up
    """
    with client() as api:
        page = page_of(
            api.collection(_PATH), limit=limit, offset=offset, every=every, **drop_missing(state=state, cursor=cursor)
        )
    for row in page["data"] if not as_json else ():
        row["created_at"] = local_time(row["created_at"])
    show_page(page, _COLUMNS, as_json, "No issue matches.")


@click.command("retry")
@session_argument(required=False)
@json_option
def retry(session_id: str | None, as_json: bool) -> None:
    """Retry issues that were given up: that of one session, or all."""
    with client() as api:
        done = api.http.call("POST", f"/{_PATH}/{session_id}/retry" if session_id else f"/{_PATH}/retry")
    print_result(done, as_json, f"{done['waiting']} issues are being retried.")
