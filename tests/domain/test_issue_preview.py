"""Previews of issue templates: the issue is the one that a session would open, and each empty field is explained."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from tests.domain.test_issue_fields import ASKING, BARE, LINK, SESSION, preset

from postern.domain.issues.issue import FieldMapping, MappingType
from postern.domain.issues.issue_fields import PRESETS, new_issue, preset_value
from postern.domain.issues.issue_preview import FieldState, UnfilledField, example_session, preview_issue
from postern.errors import Invalid

VALUES = {"why": "because", "risk": "low", "asset": "db1"}


def test_preview_is_the_issue_that_a_session_opens() -> None:
    template = replace(ASKING, mappings=(preset("session.connection", "summary"), preset("session.start_date", "at")))
    preview = preview_issue(template, SESSION, VALUES, LINK)
    assert preview.issue == new_issue(template, SESSION, VALUES, LINK)
    assert preview.unfilled == (
        UnfilledField("when", "Start", FieldState.PROMPTED),
        UnfilledField("team", "Team", FieldState.PROMPTED),
    )


def test_unknown_presets_are_reported_and_leave_the_rest_of_the_issue() -> None:
    mappings = (preset("session.colour", "a"), preset("session.user_email", "b"))
    preview = preview_issue(replace(BARE, name="", mappings=mappings), SESSION, {}, LINK)
    assert preview.issue.fields == {"b": "ann@example.com"}
    assert preview.unfilled == (UnfilledField("a", "session.colour", FieldState.UNKNOWN),)


def test_presets_that_the_session_lacks_are_reported_as_empty() -> None:
    mappings = (
        preset("session.connection_tags.empty", "a"),
        preset("session.script", "b"),
        FieldMapping("c", MappingType.CUSTOM, "session.script"),
    )
    preview = preview_issue(replace(BARE, mappings=mappings), replace(SESSION, script=None), {}, LINK)
    assert preview.issue.fields == {"c": "session.script"}
    assert [(field.source, field.state) for field in preview.unfilled] == [
        ("session.connection_tags.empty", FieldState.EMPTY),
        ("session.script", FieldState.EMPTY),
    ]


def test_required_prompts_without_a_value_are_reported_as_required() -> None:
    preview = preview_issue(ASKING, SESSION, {"why": "because"}, LINK)
    assert {field.tracker_field: field.required for field in preview.unfilled} == {
        "risk": True,
        "when": False,
        "asset": True,
        "team": False,
    }


def test_template_that_cannot_be_saved_for_other_reasons_has_no_preview() -> None:
    with pytest.raises(Invalid, match="project_key"):
        preview_issue(replace(BARE, project_key=""), SESSION, {}, LINK)
    with pytest.raises(Invalid, match="tracker_fields"):
        preview_issue(ASKING, SESSION, {"when": "soon"}, LINK)


def test_example_session_has_a_value_for_each_preset() -> None:
    example = example_session(uuid4(), None, datetime(2026, 1, 2, tzinfo=UTC))
    names = [name for name in PRESETS if "<key>" not in name]
    assert all(preset_value(name, example, LINK) for name in [*names, "session.connection_tags.team"])
