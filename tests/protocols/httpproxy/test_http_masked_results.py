"""Tables of results know their masked cells, though rules see documents, paths and texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.http_links import CARD, EMAIL, guards, http_link, masking, say
from tests.support.protocols.http_test_frames import request, response

from postern.domain.rules.guardrail import Action, Rule, RuleType
from postern.domain.sessions.results import Mask, Problem, ResultColumns, Row
from postern.interception.pipeline import Interceptor
from postern.protocols.http.recorded.http_results import HttpResults
from postern.protocols.httpproxy.lineage.httpproxy_lineage import HttpproxyLineage
from postern.protocols.wire_base import Side
from postern.recording.recorded_results import RecordedResults
from postern.relay.link import Record

USERS = [{"id": 1, "mail": EMAIL, "x": {"mail": "none"}}, {"id": 2, "mail": "-"}, {"id": 3, "x": {"mail": EMAIL}}]
MARKED = [(1,), (), (2,)]


def results(rule: Interceptor, body: bytes, content_type: str = "application/json", **options: Any) -> list[Any]:
    """What tables show of a response, read in the chunks in which it was recorded."""
    link = http_link(rule)
    reading = RecordedResults(HttpResults())
    answer = response(body, headers={"content-type": content_type}, **{"piece": 50, **options})
    effects = say(link, Side.CLIENT, request("/api/users")) + say(link, Side.TARGET, answer)
    records = [effect for effect in effects if isinstance(effect, Record)]
    return [found for each in records for event in each.events for found in reading.take(event)] + list(reading.rest())


def masked(found: list[Any]) -> list[tuple[int, ...]]:
    """Of each row, the numbers of its masked cells."""
    return [tuple(column for column, _ in row.masks) for row in found if isinstance(row, Row)]


def columns_of(found: list[Any]) -> ResultColumns:
    (columns,) = [each for each in found if isinstance(each, ResultColumns)]
    return columns


RULES: dict[str, Callable[[], Interceptor]] = {
    "values": lambda: masking(),
    "values in rows": lambda: masking("EMAIL_ADDRESS", columns=("never",), origins=HttpproxyLineage()),
    "words": lambda: guards(output=(Rule(RuleType.PATTERN_MATCH, pattern_regex='alice[^"]*', action=Action.MASK),)),
}
BODIES = [
    ("application/json", json.dumps(USERS)),
    ("application/json", json.dumps(USERS, indent=2)),
    ("application/json", json.dumps(USERS) + "\n"),
    ("application/json", json.dumps(USERS).replace("@", "\\u0040")),
    ("application/x-ndjson", "\n".join(json.dumps(user) for user in USERS)),
]


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("content_type", "text"), BODIES)
def test_changed_cells_are_marked(content_type: str, text: str, rule: str, sized: bool) -> None:
    found = results(RULES[rule](), text.encode(), content_type, sized=sized, piece=1 << 14)
    assert columns_of(found).names == ("id", "mail", "x")
    # A stream of lines has no last byte that could be waited for.
    is_stream = content_type == "application/x-ndjson" and not sized
    assert masked(found) == ([()] * 3 if is_stream else MARKED)


def test_marks_say_the_rule_and_the_type() -> None:
    found = results(masking(), json.dumps([{"a": CARD, "b": int(CARD), "c": EMAIL}]).encode())
    assert masked(found) == [(0, 1, 2)]
    (row,) = [each for each in found if isinstance(each, Row)]
    assert {mask for _, mask in row.masks} == {Mask("pii", "replace", ("CREDIT_CARD", "EMAIL_ADDRESS"))}


def test_rule_about_a_field_marks_its_column() -> None:
    found = results(masking(columns=("mail",), origins=HttpproxyLineage()), json.dumps(USERS).encode())
    assert columns_of(found).masks[1] == Mask("pii", "replace")
    assert columns_of(found).masks[2] is None
    assert masked(found) == [(1, 2)] * 3


@pytest.mark.parametrize(
    ("document", "names", "marked"),
    [
        ({"users": USERS, "total": 3}, ("users", "total"), [(0,)]),
        ({"12345678": EMAIL, "total": 3}, ("12345678", "total"), [(0,)]),
        ([EMAIL, "x", [EMAIL]], ("body",), [(0,), (), (0,)]),
        (EMAIL, ("body",), [(0,)]),
    ],
)
def test_other_documents(document: object, names: tuple[str, ...], marked: list[tuple[int, ...]]) -> None:
    found = results(masking(), json.dumps(document).encode())
    assert columns_of(found).names == names
    assert masked(found) == marked


def test_what_is_not_marked_is_still_read() -> None:
    key = results(masking(), json.dumps([{EMAIL: 1}]).encode())
    assert (len(columns_of(key).names), masked(key)) == (1, [(0,)])
    large = results(masking(), json.dumps(USERS * 8000).encode(), piece=1 << 14)
    assert len(masked(large)) == 3 * 8000
    error = results(masking(), json.dumps(USERS).encode(), status=500)
    assert [each.code for each in error if isinstance(each, Problem)] == ["500"]
