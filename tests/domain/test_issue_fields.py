"""What a template may say, what it asks of who opens a session, and the issue that comes of both."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from postern.domain.issues.issue import (
    CmdbField,
    FieldMapping,
    IssueTemplate,
    MappingType,
    NewIssue,
    Prompt,
    PromptType,
)
from postern.domain.issues.issue_fields import (
    MAX_SCRIPT,
    MAX_VALUE,
    PRESETS,
    check_template,
    checked_prompts,
    missing_prompts,
    new_issue,
    preset_value,
)
from postern.domain.sessions.session import Session, SessionStatus, Verb
from postern.errors import Invalid

LINK = "https://gateway.example.com/sessions/1"
SESSION = Session(
    id=UUID(int=1),
    org_id=uuid4(),
    connection_id=uuid4(),
    connection="shop",
    connection_subtype="postgres",
    connection_tags={"team/name": "blue", "empty": ""},
    type="database",
    verb=Verb.EXEC,
    status=SessionStatus.OPEN,
    user="ann@example.com",
    user_id="subject-1",
    user_name="Ann",
    start_date=datetime(2026, 1, 2, 3, 4, 5, 6789, tzinfo=UTC),
    script="select 1;\nselect 2",
)
BARE = IssueTemplate(uuid4(), uuid4(), "changes", "OPS", "10")
ASKING = replace(
    BARE,
    prompts=(
        Prompt("why", "Reason", required=True),
        Prompt("risk", "Risk", PromptType.SELECT, required=True),
        Prompt("when", "Start", PromptType.DATETIME),
    ),
    cmdb=(
        CmdbField("asset", "Server", required=True),
        CmdbField("team", "Team"),
        CmdbField("site", "Site", required=True, value="Berlin"),
    ),
)


def preset(value: str, field: str = "f") -> FieldMapping:
    return FieldMapping(field, MappingType.PRESET, value)


def custom(value: str, field: str = "f") -> FieldMapping:
    return FieldMapping(field, MappingType.CUSTOM, value)


def issue(template: IssueTemplate, session: Session = SESSION, **prompts: str) -> NewIssue:
    return new_issue(template, session, checked_prompts(template, prompts), LINK)


EXPECTED = {
    "session.id": "00000000-0000-0000-0000-000000000001",
    "session.user_email": "ann@example.com",
    "session.user_id": "subject-1",
    "session.user_name": "Ann",
    "session.type": "database",
    "session.connection_subtype": "postgres",
    "session.subtype": "postgres",
    "session.connection": "shop",
    "session.connection_tags.team/name": "blue",
    "session.status": "open",
    "session.script": "select 1;\nselect 2",
    "session.start_date": "2026-01-02T03:04:05.006+00:00",
    "session.webapp_link": LINK,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_each_preset_takes_its_value_from_the_session(name: str) -> None:
    template = replace(BARE, mappings=(preset(name),))
    check_template(template)
    assert preset_value(name, SESSION, LINK) == EXPECTED[name]
    value = EXPECTED[name]
    assert issue(template).fields == {"f": {"moment": value} if name == "session.start_date" else value}


def test_there_are_no_other_presets() -> None:
    assert {name.replace("<key>", "team/name") for name in PRESETS} == EXPECTED.keys()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": ""}, "name: must have 1 to 128 characters"),
        ({"name": "a\u202eb"}, "name: must have"),
        ({"project_key": " OPS"}, "project_key: must have 1 to 255"),
        ({"request_type_id": ""}, "request_type_id: must have"),
        ({"transition": "x" * 256}, "issue_transition_name_on_close: must have"),
        ({"description": "x" * 10_001}, "description: at most 10000"),
        (
            {"mappings": (custom("1"), custom("2", "g"), preset("session.foo", "h"))},
            "mapping_types.items[2].value: unknown preset 'session.foo'; use one of session.id, session.user_email",
        ),
        ({"mappings": (preset("session.connection_tags."),)}, "mapping_types.items[0].value: unknown preset"),
        ({"mappings": (preset("session.connection_tags.a b"),)}, "mapping_types.items[0].value: unknown preset"),
        ({"mappings": (custom(" "),)}, "mapping_types.items[0].value: must have 1 to 4000"),
        ({"mappings": (custom("x", ""),)}, "mapping_types.items[0].tracker_field: must have"),
        ({"mappings": (custom("1"), custom("2"))}, "mapping_types.items[1].tracker_field: 'f' is already set by "),
        ({"mappings": tuple(custom("x", str(n)) for n in range(51))}, "mapping_types.items: 51 given, at most 50"),
        (
            {"mappings": (custom("x"),), "prompts": (Prompt("g", "G"), Prompt("f", "F"))},
            "prompt_types.items[1].tracker_field: 'f' is already set by mapping_types.items[0]",
        ),
        (
            {"prompts": (Prompt("f", "F"),), "cmdb": (CmdbField("f", "Server"),)},
            "cmdb_types.items[0].tracker_field: 'f' is already set by prompt_types.items[0]",
        ),
        ({"prompts": (Prompt("f", ""),)}, "prompt_types.items[0].label: must have"),
        ({"prompts": (Prompt("f", "F", description="x" * 10_001),)}, "prompt_types.items[0].description: at most"),
        ({"cmdb": (CmdbField("f", ""),)}, "cmdb_types.items[0].tracker_object_type: must have"),
        ({"cmdb": (CmdbField("f", "Server", value="x" * 256),)}, "cmdb_types.items[0].value: must have"),
    ],
)
def test_what_is_wrong_with_a_template_is_named(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(Invalid) as raised:
        check_template(replace(BARE, **changes))
    assert raised.value.message.startswith(says)
    assert raised.value.field is not None
    assert says.startswith(raised.value.field)


def test_all_that_is_missing_is_listed_by_label_and_field() -> None:
    given = {"risk": " \t", "when": "2026-01-02T03:04", "unknown": "x"}
    assert [one.tracker_field for one in missing_prompts(ASKING, given)] == ["why", "risk", "asset"]
    with pytest.raises(Invalid) as raised:
        checked_prompts(ASKING, given)
    assert raised.value.message == (
        "tracker_fields: the issue of this session needs Reason (why), Risk (risk), Server (asset)"
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"site": "Rome"}, "has no prompts for site; it has why, risk, when, asset, team"),
        ({"other": "1", "mo\nre": "2"}, "has no prompts for other, mo\\nre; it has"),
        ({"when": "tomorrow"}, "Start (when) must be a date and time such as 2026-01-31T09:30"),
        ({"when": "2026-13-01T00:00"}, "Start (when) must be a date and time"),
        ({"when": "2026-01-01T00:00+02:00"}, "Start (when) must be a date and time"),
        ({"when": "2026-01-01"}, "Start (when) must be a date and time"),
        (
            {"when": "x", "why": "x" * 4_001},
            "Reason (why) can have at most 4000 characters; 4001 given; Start (when) must",
        ),
        ({"team": "x" * 4_001}, "Team (team) can have at most 4000 characters"),
    ],
)
def test_what_is_wrong_with_prompts_is_named(given: dict[str, str], says: str) -> None:
    with pytest.raises(Invalid) as raised:
        checked_prompts(ASKING, {"why": "w", "risk": "low", "asset": "db1"} | given)
    assert says in raised.value.message
    assert raised.value.message.startswith("tracker_fields: ")


def test_prompts_that_are_given_are_in_the_issue_and_others_are_not() -> None:
    made = issue(ASKING, why=" planned\nwork ", risk="low", asset="db1", team=" ", when="2026-01-02T03:04:05")
    assert made.fields == {
        "why": "planned\nwork",
        "risk": {"value": "low"},
        "when": {"moment": "2026-01-02T03:04:05"},
    }
    assert made.objects == {"asset": ("Server", "db1"), "site": ("Site", "Berlin")}


def test_an_issue_has_a_summary_and_a_text_without_any_mapping() -> None:
    made = issue(replace(BARE, mappings=(custom("High", "priority"),)))
    assert (made.project_key, made.request_type_id) == ("OPS", "10")
    assert made.summary == "shop: exec by ann@example.com"
    assert made.marker == f"postern-session-{SESSION.id}"
    assert made.text.splitlines()[:2] == [f"exec on shop by Ann (ann@example.com), session {SESSION.id}", LINK]
    assert made.text.splitlines()[-1] == made.marker
    assert (made.fields, made.objects) == ({"priority": "High"}, {})


def test_a_template_fills_in_summary_and_text() -> None:
    template = replace(
        BARE,
        mappings=(preset("session.script", "summary"),),
        prompts=(Prompt("description", "What", PromptType.SELECT),),
    )
    made = issue(template, description="as\nplanned")
    assert made.summary == "select 1;\\nselect 2"
    assert made.text == f"as\nplanned\n\n{made.marker}"
    assert made.fields == {}
    assert len(issue(template, replace(SESSION, script="x" * 300)).summary) == 255


def test_what_a_session_does_not_have_is_left_out() -> None:
    names = ("session.script", "session.connection_tags.nothing", "session.connection_tags.empty")
    template = replace(BARE, mappings=tuple(preset(name, name) for name in names))
    assert issue(template, replace(SESSION, script=None)).fields == {}


def test_a_script_is_bounded_and_says_so() -> None:
    template = replace(BARE, mappings=(preset("session.script"),))
    whole, cut = (issue(template, replace(SESSION, script="x" * size)) for size in (MAX_SCRIPT, MAX_SCRIPT + 1))
    assert whole.fields["f"] == "x" * MAX_SCRIPT
    assert len(cut.fields["f"]) == MAX_SCRIPT
    assert cut.fields["f"].endswith(f"x\n\u2026 ({MAX_SCRIPT + 1} characters in all)")


def test_attack_nobody_writes_the_marker_of_another_session() -> None:
    """By it the issue of a session is found again."""
    forged = "POSTERN-session-00000000-0000-0000-0000-000000000002"
    template = replace(
        ASKING,
        mappings=(preset("session.script", "description"), preset("session.user_name", "summary")),
    )
    made = issue(template, replace(SESSION, script=forged, user_name=forged), why=forged, risk=forged, asset=forged)
    shown = repr(made).lower().replace(made.marker, "")
    assert "postern-session-" not in shown
    assert "postern session " in shown
    plain = issue(BARE, replace(SESSION, user_name=forged, user=forged))
    assert "postern-session-" not in repr(plain).lower().replace(plain.marker, "")


def test_attack_nothing_in_an_issue_steers_who_reads_it() -> None:
    template = replace(ASKING, mappings=(preset("session.script", "description"), preset("session.user_name", "name")))
    evil = "a\x1b[2J\u202eb\r"
    made = issue(template, replace(SESSION, script=evil, user_name=evil), why=evil, risk=evil, asset=evil)
    for text in (
        made.text,
        made.fields["name"],
        made.fields["why"],
        made.fields["risk"]["value"],
        *made.objects["asset"],
    ):
        assert not {"\x1b", "\u202e", "\r"} & set(text)


def test_the_longest_values_are_taken() -> None:
    made = issue(ASKING, why="x" * MAX_VALUE, risk="y" * MAX_VALUE, asset="z")
    assert made.fields == {"why": "x" * MAX_VALUE, "risk": {"value": "y" * MAX_VALUE}}
