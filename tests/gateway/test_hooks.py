"""Session hooks of a worker: in order, limited, stored, and without effect on other sessions."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.promises import PATIENT, until

from postern.domain.hook import MAX_HOOK, HookKind, HookOutcome, HookRun, HookScript
from postern.domain.identity.principal import Principal
from postern.domain.rules.permit import Permit, seal
from postern.domain.rules.policy import Policy
from postern.domain.secret import Secret
from postern.domain.sessions.session import EndReason, Verb
from postern.domain.targets.connection import Connection, ConnectionType
from postern.errors import Denied, Unavailable
from postern.gateway import worker_hooks as module
from postern.gateway.worker_hooks import MOST, OF_ONE, HookMoment, SessionHooks, context
from postern.relay.relay_hooks import Hook

SESSION = uuid4()
AWAY = Unavailable("the store is away")
OPEN, CLOSE = HookKind.OPEN, HookKind.CLOSE
Answer = Callable[[Hook], Awaitable[HookOutcome]]


def permit_of(verb: Verb = Verb.EXEC) -> Permit:
    secret = {"envvar:PASS": Secret("planted")}
    connection = Connection(
        uuid4(), uuid4(), "shop", ConnectionType.DATABASE, "postgres", uuid4(), secret=secret, reviewers=("dba",)
    )
    ann = Principal(uuid4(), connection.org_id, "ann", "ann@example.com", "Ann")
    return Permit(ann, connection, Policy(), verb, "192.0.2.1", None, None, seal())


async def succeeds(hook: Hook) -> HookOutcome:
    return HookOutcome(0, "what it printed")


async def hangs(hook: Hook) -> HookOutcome:
    await asyncio.Event().wait()
    raise AssertionError("nobody waits that long")


def refuses(error: Exception) -> Answer:
    async def answer(hook: Hook) -> HookOutcome:
        raise error

    return answer


class Here:
    """The store's side and the agents', and what they heard."""

    def __init__(self, answer: Answer = succeeds, *, repositories: Sequence[str] = ("one",), late: float = 60) -> None:
        self.permit = permit_of()
        self.other = permit_of()  # of another organisation, whose hooks succeed
        self.answer = answer
        self.repositories = repositories
        self.text = "print(1)"
        self.told: list[dict[str, Any]] = []  # of hooks that began, in order
        self.runs: list[HookRun] = []
        self.tries = 0
        self.news = asyncio.Event()
        self.most = self.now = 0  # hooks that ran at once
        self.is_away: Exception | None = None
        self.is_known = True
        self.nothing: set[UUID] = set()  # organisations that are known to have none
        self.counted: Counter[tuple[str, ...]] = Counter()
        self.hooks = SessionHooks(self, self, self.count, seconds=0, late=late)

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        assert name == "postern_session_hooks"
        self.counted[labels] += int(by)

    async def of(self, org_id: UUID, kind: HookKind) -> Sequence[HookScript]:
        assert org_id in {one.connection.org_id for one in (self.permit, self.other)} - self.nothing
        await asyncio.sleep(0)
        if not self.is_known:
            raise Unavailable("the store is away")
        return [HookScript(kind, name, "c0ffee" * 6, self.text) for name in self.repositories]

    def is_none(self, org_id: UUID, kind: HookKind) -> bool:
        return org_id in self.nothing

    async def record_run(self, run: HookRun) -> None:
        self.tries += 1
        self.news.set()
        if self.is_away:
            raise self.is_away
        self.runs.append(run)

    async def hook(self, permit: Permit, session_id: UUID, hook: Hook) -> HookOutcome:
        self.told.append(json.loads(base64.b64decode(hook.context)))
        self.now += 1
        self.most = max(self.most, self.now)
        self.news.set()
        try:
            return await (self.answer if permit is self.permit else succeeds)(hook)
        finally:
            self.now -= 1

    def opened(self, session_id: UUID = SESSION) -> None:
        self.hooks.handle_open(session_id, self.permit, "select 1")

    def closed(self, session_id: UUID = SESSION, reason: EndReason = EndReason.COMPLETED, code: int | None = 0) -> None:
        self.hooks.handle_close(session_id, self.permit, reason, code)

    async def until(self, true: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not true():
                self.news.clear()
                await self.news.wait()

    async def ended(self, number: int = 1) -> list[tuple[HookKind, int | None, str]]:
        """Of so many hooks: kind, exit code, reason."""
        await self.until(lambda: len(self.runs) >= number)
        return [(run.kind, run.outcome.exit_code, run.outcome.reason) for run in self.runs]


async def test_hooks_receive_the_session_facts_and_their_output_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    here = Here()
    here.opened()
    here.closed(reason=EndReason.KILLED, code=None)
    assert await here.ended(2) == [(OPEN, 0, ""), (CLOSE, 0, "")]
    opened, closed = here.told
    about = {
        "verb": "exec",
        "connection_name": "shop",
        "connection_type": "database",
        "connection_subtype": "postgres",
        "connection_envs": {},
        "connection_reviewers": [],
        "user_email": "ann@example.com",
    }
    assert opened == {
        "id": str(here.runs[0].id),
        "sid": str(SESSION),
        "command": ["python3"],
        "event_session_open": {**about, "input": "select 1", "input_truncated": False},
        "event_session_close": None,
    }
    assert closed["event_session_open"] is None
    assert closed["event_session_close"] == {"exit_code": 1, "output": "killed", **about}
    run = here.runs[0]
    assert (run.org_id, run.session_id, run.repository) == (here.permit.connection.org_id, SESSION, "one")
    assert run.outcome.output == "what it printed"
    assert here.counted == {(OPEN, "succeeded"): 1, (CLOSE, "succeeded"): 1}
    assert f"session {SESSION}: hook session-open of one at c0ffeec0ffee ended with exit code 0" in caplog.text
    assert "what it printed" not in caplog.text


@pytest.mark.parametrize(
    ("reason", "code", "told"),
    [
        (EndReason.CLIENT_CLOSED, None, 0),
        (EndReason.IDLE, None, 1),
        (EndReason.COMPLETED, 0, 0),
        (EndReason.FAILED, 7, 7),
    ],
)
def test_hook_context_of_an_ended_session_always_has_an_exit_code(
    reason: EndReason, code: int | None, told: int
) -> None:
    moment = HookMoment(CLOSE, SESSION, permit_of(Verb.CONNECT), reason=reason, exit_code=code)
    assert json.loads(base64.b64decode(context(uuid4(), moment)))["event_session_close"]["exit_code"] == told


@pytest.mark.parametrize("script", ["x" * 9_000_000, '"\n' * 40_000, "\udc80ä😀" * 30_000, "y" * MOST])
def test_attack_script_too_long_for_a_hook_context_is_cut_and_marked(script: str) -> None:
    found = context(uuid4(), HookMoment(OPEN, SESSION, permit_of(), script))
    assert 0.9 * MOST < len(base64.b64decode(found)) <= MOST
    event = json.loads(base64.b64decode(found))["event_session_open"]
    assert event["input_truncated"] is True
    assert script.encode("utf-16", "surrogatepass").startswith(event["input"].encode("utf-16", "surrogatepass"))


@pytest.mark.parametrize("script", ["x" * 9_000_000, "y" * MOST, '"\n' * 40_000, "a" * 24_000 + "😀" * 24_000])
def test_attack_long_script_is_cut_in_linear_time(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was encoded again for each few characters over the limit."""
    written = 0

    def dumps(what: Any, **given: Any) -> str:
        nonlocal written
        made = json.dumps(what, **given)
        written += len(made)
        return made

    monkeypatch.setattr("postern.gateway.worker_hooks.json", SimpleNamespace(dumps=dumps))
    context(uuid4(), HookMoment(OPEN, SESSION, permit_of(), script))
    assert written < 4 * MOST


async def test_attack_long_scripts_are_cut_while_their_hooks_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []

    def seen(run_id: UUID, moment: HookMoment) -> str:
        kept.append(len(moment.script))
        return context(run_id, moment)

    monkeypatch.setattr(module, "context", seen)
    here = Here()
    here.hooks.handle_open(SESSION, here.permit, "x" * 4_000_000)
    await here.ended()
    assert kept == [MOST + 1]
    assert here.told[0]["event_session_open"]["input_truncated"] is True


async def test_close_hooks_wait_for_the_open_hooks_of_their_session() -> None:
    go_on = asyncio.Event()

    async def slow_first(hook: Hook) -> HookOutcome:
        await go_on.wait()
        return HookOutcome(0)

    here = Here(slow_first, repositories=("one", "two"))
    here.opened()
    here.closed()
    other = uuid4()
    here.closed(other)
    await here.until(lambda: len(here.told) == 2)
    assert {one["sid"] for one in here.told} == {str(SESSION), str(other)}
    go_on.set()
    await here.ended(6)
    mine = [(run.kind, run.repository) for run in here.runs if run.session_id == SESSION]
    assert mine == [(OPEN, "one"), (OPEN, "two"), (CLOSE, "one"), (CLOSE, "two")]


async def test_attack_hooks_over_the_running_limit_wait_and_over_the_queue_limit_are_skipped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "WAITING", 3)
    go_on = asyncio.Event()

    async def slow(hook: Hook) -> HookOutcome:
        await go_on.wait()
        return HookOutcome(0)

    here = Here(slow)
    for _ in range(OF_ONE + 3 + 2):
        here.opened(uuid4())
    found = await here.ended(2)
    assert {(code, "3 hooks of this organisation are already waiting" in reason) for _, code, reason in found} == {
        (None, True)
    }
    assert "did not finish: 3 hooks of this organisation are already waiting" in caplog.text
    go_on.set()
    assert [code for _, code, _ in await here.ended(OF_ONE + 5)] == [None] * 2 + [0] * (OF_ONE + 3)
    assert here.most == OF_ONE
    assert here.counted == {(OPEN, "not_run"): 2, (OPEN, "succeeded"): OF_ONE + 3}


async def test_attack_hanging_hooks_of_one_organisation_do_not_block_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WAITING", 3)
    monkeypatch.setattr(module, "MOMENTS", OF_ONE + 3)
    here = Here(hangs)
    for _ in range(OF_ONE + 5):
        here.opened(uuid4())
    await here.until(lambda: here.now == OF_ONE)
    for _ in range(OF_ONE):
        here.hooks.handle_open(uuid4(), here.other, "select 1")
    assert [code for _, code, _ in await here.ended(OF_ONE)] == [0] * OF_ONE
    assert {run.org_id for run in here.runs} == {here.other.connection.org_id}
    await here.hooks.stop(0)
    assert not here.hooks._shares


async def test_hooks_of_all_organisations_share_one_running_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", 2)
    here = Here(hangs)
    for _ in range(2):
        here.opened(uuid4())
    await here.until(lambda: here.now == 2)
    here.hooks.handle_open(SESSION, here.other, "select 1")
    await asyncio.sleep(0.05)
    assert (here.now, here.most, here.runs) == (2, 2, [])
    await here.hooks.stop(0)


async def test_hook_disabled_or_changed_while_it_waited_runs_in_its_current_state() -> None:
    """A hanging hook that is disabled or fixed does not run hundreds of times more."""
    go_on = asyncio.Event()

    async def slow(hook: Hook) -> HookOutcome:
        await go_on.wait()
        return HookOutcome(0, hook.text)

    here = Here(slow, repositories=("one", "two"))
    for _ in range(OF_ONE):
        here.opened(uuid4())
    await here.until(lambda: here.now == OF_ONE)
    here.opened()
    await until(lambda: here.hooks._shares[here.permit.connection.org_id].waiting)
    here.repositories, here.text = ("two",), "print('mended')"
    go_on.set()
    await here.ended(2 * OF_ONE + 2)
    first, second = (run for run in here.runs if run.session_id == SESSION)
    assert first.outcome == HookOutcome(None, reason="it was disabled, or was removed from its repository")
    assert second.outcome == HookOutcome(0, "print('mended')")


async def test_hook_whose_current_state_cannot_be_read_does_not_run() -> None:
    go_on = asyncio.Event()

    async def slow(hook: Hook) -> HookOutcome:
        await go_on.wait()
        return HookOutcome(0)

    here = Here(slow)
    for _ in range(OF_ONE + 1):
        here.opened(uuid4())
    await here.until(lambda: here.now == OF_ONE)
    here.is_known = False
    go_on.set()
    *_, (_, code, reason) = await here.ended(OF_ONE + 1)
    assert (code, reason) == (None, "reading its current state failed: the store is away")


async def test_organisation_without_hooks_starts_no_task() -> None:
    here = Here()
    here.nothing.add(here.other.connection.org_id)
    here.hooks.handle_open(SESSION, here.other, "select 1")
    assert not here.hooks._tasks
    mine = uuid4()
    here.opened(mine)
    here.closed(mine)
    await here.ended(2)
    await until(lambda: not here.hooks._tasks)
    here.hooks.handle_close(SESSION, here.other, EndReason.COMPLETED, 0)
    assert not here.hooks._tasks
    await asyncio.wait_for(here.hooks.stop(1_000 * PATIENT), PATIENT)


async def test_attack_sessions_waiting_for_their_hook_list_are_limited(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MOMENTS", 2)
    here = Here()
    for _ in range(3):
        here.opened(uuid4())
    await here.ended(2)
    assert "its hooks do not run because too many other hooks are waiting" in caplog.text
    assert len(here.told) == 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (refuses(Denied("the agent's own policy\nforbids it")), r"the agent's own policy\nforbids it"),
        (refuses(Unavailable("its agent is offline")), "its agent is offline"),
        (refuses(RuntimeError("planted")), "the gateway failed to run it; see the gateway's log"),
    ],
)
async def test_reason_why_a_hook_did_not_run_is_stored(answer: Answer, reason: str) -> None:
    here = Here(answer)
    here.opened()
    assert await here.ended() == [(OPEN, None, reason)]
    assert here.counted == {(OPEN, "not_run"): 1}


async def test_hook_at_an_agent_that_never_answers_times_out() -> None:
    here = Here(hangs, late=0.05)
    here.opened()
    ((_, code, reason),) = await here.ended()
    assert (code, reason) == (None, "its agent did not answer in time; it is unknown whether the hook ran")


async def test_failed_and_interrupted_hooks_are_counted_by_outcome() -> None:
    outcomes = iter(
        [HookOutcome(3, "no"), HookOutcome(None, "a", "it did not finish within 1 minute and was terminated")]
    )

    async def answer(hook: Hook) -> HookOutcome:
        return next(outcomes)

    here = Here(answer)
    here.opened()
    here.closed()
    await here.ended(2)
    assert here.counted == {(OPEN, "failed"): 1, (CLOSE, "not_run"): 1}
    assert here.runs[1].outcome.output == "a"


async def test_oversized_hook_is_not_sent_to_its_agent() -> None:
    here = Here()
    here.text = "#" * (MAX_HOOK + 1)
    here.opened()
    assert await here.ended() == [(OPEN, None, f"it has {MAX_HOOK + 1} bytes; a hook can have at most {MAX_HOOK}")]
    assert here.told == []


async def test_no_hook_runs_if_the_list_of_hooks_cannot_be_read(caplog: pytest.LogCaptureFixture) -> None:
    here = Here()
    here.is_known = False
    here.opened()
    await here.hooks.stop(0.1)
    assert (here.told, here.runs) == ([], [])
    assert f"session {SESSION}: reading its hooks failed: the store is away" in caplog.text


async def test_result_of_a_hook_is_stored_once_the_store_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN", (0.01,) * 1_000)
    here = Here()
    here.is_away = AWAY
    here.opened()
    await here.until(lambda: here.tries == 3)
    here.is_away = None
    assert await here.ended() == [(OPEN, 0, "")]


async def test_result_of_a_hook_that_cannot_be_stored_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "AGAIN", (0.01, 0.01))
    here = Here()
    here.is_away = AWAY
    here.opened()
    await here.until(lambda: here.tries == 3)
    await here.hooks.stop(0.1)
    said = "storing the result of hook session-open of one at c0ffeec0ffee failed: the store is away"
    assert said in caplog.text


async def test_read_only_store_does_not_prevent_the_next_hook(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A read-only store fails with another error than an unavailable one."""
    monkeypatch.setattr(module, "AGAIN", ())
    here = Here(repositories=("one", "two"))
    here.is_away = RuntimeError("it is read only")
    here.opened()
    await here.until(lambda: len(here.told) == 2)
    assert "hook session-open of one at c0ffeec0ffee failed: it is read only" in caplog.text


async def test_stopping_worker_waits_for_running_hooks() -> None:
    go_on = asyncio.Event()

    async def slow(hook: Hook) -> HookOutcome:
        await go_on.wait()
        return HookOutcome(0)

    here = Here(slow)
    here.opened()
    await here.until(lambda: here.now)
    here.closed()
    stopping = asyncio.ensure_future(here.hooks.stop(60))
    go_on.set()
    await stopping
    assert await here.ended(2) == [(OPEN, 0, ""), (CLOSE, 0, "")]


async def test_stopping_worker_runs_the_close_hooks_of_its_sessions() -> None:
    here = Here()
    here.opened()
    await here.ended(1)
    stopping = asyncio.ensure_future(here.hooks.stop(60))
    await asyncio.sleep(0.05)
    here.closed(reason=EndReason.GATEWAY_STOPPED)
    await stopping
    assert await here.ended(2) == [(OPEN, 0, ""), (CLOSE, 0, "")]


async def test_stopping_worker_ends_hanging_hooks_and_starts_no_more() -> None:
    here = Here(hangs, repositories=("one", "two"))
    for _ in range(OF_ONE + 1):
        here.opened(uuid4())
    await here.until(lambda: here.now == OF_ONE)
    await here.hooks.stop(0.01)
    assert here.now == 0
    here.closed(uuid4())
    await here.hooks.stop(0)
    found = await here.ended(2 * OF_ONE + 4)
    assert {(code, reason) for _, code, reason in found} == {(None, "the gateway stopped before the hook finished")}
    assert len(here.told) == OF_ONE
    assert not here.hooks._tasks
