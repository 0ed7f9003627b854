"""What became of a session's hooks, over HTTP."""

from __future__ import annotations

from uuid import uuid4

from tests.api.conftest import Api
from tests.support.sessions import add_session

from postern.domain.hook import HookKind, HookOutcome, HookRun


async def test_runs_are_shown_with_what_they_printed(api: Api) -> None:
    session = await add_session(api.world, await api.world.add_user("eve"))
    path = f"/sessions/{session.id}/hooks"
    empty = await api.as_admin.get(path)
    assert (empty.status_code, empty.json()) == (200, {"data": []})
    outcomes = {
        HookKind.OPEN: HookOutcome(0, "ticket 7\n"),
        HookKind.CLOSE: HookOutcome(None, "", "there is no python3"),
    }
    for kind, outcome in outcomes.items():
        run = HookRun(
            uuid4(), session.org_id, session.id, kind, "git.example.com/a/b", "c0ffee", api.world.clock(), 0.5, outcome
        )
        await api.services.hooks.record_run(run)
        api.world.clock.forward(seconds=1)
    shown = (await api.as_admin.get(path)).json()["data"]
    assert [(one["kind"], one["exit_code"], one["reason"], one["output"]) for one in shown] == [
        ("session-open", 0, "", "ticket 7\n"),
        ("session-close", None, "there is no python3", ""),
    ]
    assert {(one["repository"], one["commit"], one["seconds"]) for one in shown} == {
        ("git.example.com/a/b", "c0ffee", 0.5)
    }
