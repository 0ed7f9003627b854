"""Judgement of previews, without targets. tests/e2e/test_script_previews.py compares it with runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from tests.support.world import World

from postern.domain.features import Feature
from postern.domain.rules.guardrail import Action, Guardrail, Rule, RuleType
from postern.domain.rules.permit import Permit
from postern.domain.rules.script_preview import MAX_PREVIEWED, PreviewMessage, PreviewOutcome, ScriptPreview
from postern.domain.targets.connection import Connection
from postern.domain.targets.target_schema import TargetSchema
from postern.errors import Invalid, Malformed, Unavailable
from postern.gateway.rules.held_requests import HeldRequests
from postern.gateway.rules.parse_slots import QueueFull
from postern.gateway.rules.script_judge import ScriptJudge
from postern.gateway.rules.target_schemas import TargetSchemas
from postern.interception.events import Event, Operation
from postern.interception.pipeline import BatchNeed, Pipeline, SessionView
from postern.interception.verdicts import Verdict
from postern.relay.relay_target import Start
from postern.settings import Settings
from postern.store.database import Database
from postern.wiring.parsers import analysis_task
from postern.wiring.processes.worker_process import open_wire, pipeline

pytestmark = pytest.mark.ci

RULES = (
    Rule(RuleType.REQUIRE_WHERE, name="where"),
    Rule(RuleType.DENY_WORDS_LIST, ("watched",), name="watch", action=Action.WARN),
    Rule(RuleType.DENY_WORDS_LIST, ("noticed",), name="notice", action=Action.WARN),
    Rule(RuleType.PATTERN_MATCH, (), "four_eyes", "four eyes", action=Action.REVIEW),
)


class NoSchemas:
    """No target is asked."""

    async def of(self, permit: Permit, start: Start) -> TargetSchema | None:
        return None


class Desk:
    def __init__(self, world: World) -> None:
        self.world = world
        self.services = world.services()
        self.counted: list[tuple[str, str]] = []
        self.pipeline: Callable[[Permit, SessionView], Pipeline] = pipeline
        self.settings = Settings(home=Path("."))

    async def permit(self, subtype: str, *rules: Rule, **fields: Any) -> Permit:
        connection = await self.world.add_connection(f"shop-{subtype}", subtype=subtype, **fields)
        await self.guard(connection, *rules)
        ann = await self.world.add_user("ann", "dba")
        return await self.services.access.admit_preview(ann, connection.name, source="::1")

    async def guard(self, connection: Connection, *rules: Rule) -> None:
        if rules:
            at = self.world.clock()
            rail = Guardrail(uuid4(), self.world.org_id, "care", "", True, rules, (), (connection.id,), at, at)
            await self.world.stores.guardrails.add(rail)

    @property
    def held_requests(self) -> HeldRequests:
        async def address(review_id: object) -> str:
            raise AssertionError("a preview requests no review")

        return HeldRequests(self.services.asking, self.services.reviews, self.world.signals, address)

    def judge(self, held_requests: HeldRequests | None = None) -> ScriptJudge:
        return ScriptJudge(
            cast("TargetSchemas", NoSchemas()),
            lambda permit, view: self.pipeline(permit, view),
            open_wire(self.settings, None, self.world.signals),
            held_requests or self.held_requests,
            analysis_task,
            lambda metric, outcome: self.counted.append((metric, outcome)),
        )

    async def preview(self, permit: Permit, script: str, **parameters: Any) -> ScriptPreview:
        return await self.judge().preview(permit, None, script, parameters)


@pytest.fixture
async def desk(sqlite_database: Database) -> Desk:
    return Desk(await World.make(sqlite_database))


BOTH = pytest.mark.parametrize("subtype", ["postgres", "mysql"])


@BOTH
@pytest.mark.parametrize(
    ("script", "outcome", "rules"),
    [
        ("select 1", PreviewOutcome.ALLOW, []),
        ("", PreviewOutcome.ALLOW, []),
        ("delete from t", PreviewOutcome.DENY, ["care / where"]),
        ("select 'four_eyes'", PreviewOutcome.HOLD, ["care / four eyes"]),
        ("select 'watched'", PreviewOutcome.WARN, ["care / watch"]),
        ("select 'watched', 'four_eyes'", PreviewOutcome.HOLD, ["care / four eyes"]),
        ("select 'four_eyes'; delete from t", PreviewOutcome.DENY, ["care / where"]),
        ("select '" + "x" * 5_000 + "'; delete from t", PreviewOutcome.DENY, ["care / where"]),
    ],
)
async def test_outcome_is_that_of_the_whole_script(
    desk: Desk, subtype: str, script: str, outcome: PreviewOutcome, rules: list[str]
) -> None:
    permit = await desk.permit(subtype, *RULES, reviewers=("dba",))
    preview = await desk.preview(permit, script)
    assert preview.judgement.outcome is outcome
    assert [message.rule for message in preview.judgement.messages] == rules
    assert preview.judgement.held_by == (("dba", "admin") if outcome is PreviewOutcome.HOLD else ())
    assert desk.counted == [("postern_script_previews", str(outcome))]


@BOTH
async def test_each_statement_has_its_own_outcome(desk: Desk, subtype: str) -> None:
    permit = await desk.permit(subtype, *RULES)
    script = "select 1; select 'watched'; select 'four_eyes'; delete from t; select 'noticed'"
    preview = await desk.preview(permit, script)
    assert [judgement.outcome for judgement in preview.of_parts] == [
        *(PreviewOutcome.ALLOW, PreviewOutcome.WARN, PreviewOutcome.HOLD),
        *(PreviewOutcome.DENY, PreviewOutcome.WARN),
    ]
    assert [script[part.start : part.end] for part in preview.analysis.parts] == script.split("; ")


@pytest.mark.parametrize(
    ("subtype", "prepare"), [("postgres", "prepare p as delete from t"), ("mysql", "prepare p from 'delete from t'")]
)
async def test_statement_that_runs_what_an_earlier_one_prepares_is_judged_by_it(
    desk: Desk, subtype: str, prepare: str
) -> None:
    rule = Rule(RuleType.DENY_WORDS_LIST, ("nothing",), name="words")
    permit = await desk.permit(subtype, rule, replace(RULES[0], action=Action.WARN))
    preview = await desk.preview(permit, f"{prepare}; execute p")
    assert [judgement.outcome for judgement in preview.of_parts] == [PreviewOutcome.WARN, PreviewOutcome.WARN]
    assert "write" in preview.analysis.parts[1].effects


@BOTH
async def test_hold_where_reviews_are_off_is_a_denial(desk: Desk, subtype: str) -> None:
    permit = await desk.permit(subtype, *RULES)
    chief = await desk.world.add_user("chief", "admin")
    await desk.services.features.put(chief, Feature.REVIEWS, enabled=False)
    (message,) = (await desk.preview(permit, "select 'four_eyes'")).judgement.messages
    assert "no review was created: " in message.message
    assert "reviews are switched off" in message.message


@BOTH
async def test_held_statement_that_is_longer_than_reviewers_are_shown_is_a_denial(desk: Desk, subtype: str) -> None:
    permit = await desk.permit(subtype, *RULES)
    judgement = (await desk.preview(permit, "select 'four_eyes', '" + "x" * 10_000 + "'")).judgement
    assert judgement.outcome is PreviewOutcome.DENY
    assert "longer than the 10,000 characters that reviewers are shown" in judgement.messages[0].message


class Broken:
    name = "broken"
    wants: frozenset[type[Event]] = frozenset({Operation})
    batch_need: BatchNeed = BatchNeed.NONE

    def see(self, event: Event, session: SessionView) -> Verdict:
        raise RuntimeError("broken")


@BOTH
async def test_judge_that_fails_denies(desk: Desk, subtype: str) -> None:
    permit = await desk.permit(subtype)
    desk.pipeline = lambda permit, view: Pipeline([Broken()], view)
    judgement = (await desk.preview(permit, "select 1")).judgement
    assert judgement.outcome is PreviewOutcome.DENY
    assert judgement.messages[0].message == "broken failed to evaluate this, so it was denied"


async def test_statement_that_is_too_large_for_a_session_is_denied(desk: Desk) -> None:
    desk.settings = replace(desk.settings, max_statement=4096)
    permit = await desk.permit("postgres")
    judgement = (await desk.preview(permit, "select '" + "x" * 5_000 + "'")).judgement
    assert judgement.outcome is PreviewOutcome.DENY
    assert judgement.messages


class Full(HeldRequests):
    async def run_task(self, permit: Permit, task: Any, size: int) -> object:
        raise QueueFull


async def test_full_queue_is_no_preview(desk: Desk) -> None:
    permit = await desk.permit("postgres")
    held_requests = desk.held_requests
    held_requests.__class__ = Full
    with pytest.raises(Unavailable, match="too many statements are waiting"):
        await desk.judge(held_requests).preview(permit, None, "select 1", {})


@BOTH
async def test_parameters_are_judged_and_places_are_those_of_the_script(desk: Desk, subtype: str) -> None:
    permit = await desk.permit(subtype, *RULES)
    script = "select :name , :b ; select :b, :name"
    preview = await desk.preview(permit, script, name="watched", b=None)
    assert preview.judgement.outcome is PreviewOutcome.WARN
    assert [script[part.start : part.end] for part in preview.analysis.parts] == script.split(" ; ")
    with pytest.raises(Invalid, match="uses :b without a value"):
        await desk.preview(permit, script, name="x")


async def test_more_statements_than_are_described_are_still_judged(desk: Desk) -> None:
    permit = await desk.permit("postgres", *RULES)
    preview = await desk.preview(permit, "select 1;" * MAX_PREVIEWED + "delete from t")
    assert preview.judgement.outcome is PreviewOutcome.DENY
    assert len(preview.of_parts) == MAX_PREVIEWED
    assert preview.as_json()["statements_truncated"] is True
    single = await desk.preview(permit, "delete from t")
    assert single.of_parts == (single.judgement,)


async def test_connection_without_statements_has_no_preview(desk: Desk) -> None:
    permit = await desk.permit("postgres")
    shell = replace(permit, connection=replace(permit.connection, subtype="", command=("sh",)))
    with pytest.raises(Malformed, match="no statements that can be previewed"):
        await desk.preview(shell, "echo")


async def test_message_is_that_of_the_rules_author(desk: Desk) -> None:
    rule = replace(RULES[0], message="Ask the shop's owner.")
    permit = await desk.permit("postgres", rule)
    assert (await desk.preview(permit, "delete from t")).judgement.messages == (
        PreviewMessage(
            "care / where",
            "Ask the shop's owner. [care / where: DELETE has no condition]",
            'If you need this on connection "shop-postgres": ask an administrator to change the guardrail.',
        ),
    )
