"""The MongoDB cases on a real server: each does what it says, and what guardrails forward changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.bypass import cases_mongodb
from tests.bypass.cases import Case, Observed, Truth
from tests.bypass.mongodb_forms import forms
from tests.bypass.observe_mongodb import MongodbObserver
from tests.bypass.test_mongodb_messages_of_cases import READS_ONLY, forward
from tests.support.mongodb import running_mongodb

# Cases that change nothing on SecantusDB, by a part of their texts.
_UNCHANGED = {
    **dict.fromkeys(('"$alwaysTrue"', '"$alwaysFalse"', '"$sampleRate"'), "has no such operator"),
    **dict.fromkeys(('"multi": 1}', '"remove": 1'), "wants booleans as flags; MongoDB takes numbers"),
    '"originatingCommand"': "is the gateway's own text of a getMore, which no server reads",
    '"explain"': "does not run what it explains; MongoDB runs it, without its writes, and rejects $out and $merge",
    **dict.fromkeys(
        ('{"_id": 7}', '{"_id": {"$exists": false}}', '{"$expr": false}', '"q": {"note": ', '{"$nor": [{}]}'),
        "has no such document",
    ),
    **dict.fromkeys(('"system.views"', '"system.users"', '"system.sessions"'), "lets nobody write to collections of its own"),
    '"viewOn": "orders", "pipeline": [{"$merge"': "rejects a view that writes",
    '"collMod": "v"': "ignores new definitions of views",
    '"updateUser"': "shows no passwords",
    '"profile": 0': "shows no filters of its profiler",
    '{"createRole": "r", "privileges": [{"resource": {"db"': "has roles of the database only",
    '"grantPrivilegesToRole"': "shows no privileges",
}  # fmt: skip
# Harmless cases that it rejects.
_REJECTED = {
    '{"$out": 1}]}}': "takes an operator in $in for one of the filter",
    '"originatingCommand"': "is the gateway's own text of a getMore, which no server reads",
}


@pytest.fixture(scope="module")
def observer() -> Iterator[MongodbObserver]:
    with running_mongodb(auth=False) as server:
        running = MongodbObserver(server)
        yield running
        running.close()


def _is_as_said(case: Case, seen: Observed) -> bool:
    if case.truth is Truth.UNDECIDABLE or seen.rejected:
        return True
    if case.truth is Truth.CHANGES:
        return seen.changed or any(part in case.text for part in _UNCHANGED)
    if case.truth is Truth.PRIVILEGED:
        return not seen.changed
    return not seen.changed and (not seen.error or any(part in case.text for part in _REJECTED))


@pytest.mark.huge
def test_server_behaves_as_the_cases_state(observer: MongodbObserver) -> None:
    wrong, implemented = [], 0
    for case in cases_mongodb.CASES:
        seen = observer.observe(case)
        implemented += not seen.rejected
        if not _is_as_said(case, seen):
            wrong.append(f"{case.text}: said to be {case.truth}, seen to be {seen}")
    assert not wrong, "\n".join(wrong)
    assert implemented >= 200


@pytest.mark.huge
def test_what_a_guardrail_for_reads_forwards_changes_nothing(observer: MongodbObserver) -> None:
    texts = [case.text for case in cases_mongodb.CASES]
    texts += [cases_mongodb.in_scratch(ordinary.text) for ordinary in cases_mongodb.ORDINARY]
    count = 0
    for text in texts:
        for form, message in forms(text):
            forwarded = forward(message, READS_ONLY)
            if forwarded and "getMore" not in json.loads(text):
                count += 1
                assert not observer.observe_message(forwarded).changed, (form, text)
    assert count >= 500
