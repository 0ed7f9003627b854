"""Runbooks of the kind that teams have, each with what it asks for, and what it becomes with some inputs.

Beside each `NAME.runbook.EXT` of the folder is `NAME.runbook.EXT.json`: `subtype` and `command` of a connection, and
either `error` (the file is no template), or `parameters` (what is not at its default) and `cases`: `inputs`, and either
`error` or `script` (its lines) and `environment`.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from postern.domain.runbook import Parameter
from postern.runbooks.template import RenderError, TemplateError, parse, syntax_of

FOLDER = Path(__file__).parent / "conformance"
RUNBOOKS = sorted(path for path in FOLDER.iterdir() if path.suffix != ".json")


def said(parameter: Parameter) -> dict[str, Any]:
    defaults = Parameter(name="")
    values = {one.name: getattr(parameter, one.name) for one in fields(Parameter)}
    kept = {name: value for name, value in values.items() if value != getattr(defaults, name) or name == "type"}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in kept.items()}


def test_conformance_set_has_at_least_40_runbooks_each_with_an_expectation() -> None:
    assert len(RUNBOOKS) >= 40
    assert all(path.with_name(path.name + ".json").exists() for path in RUNBOOKS)
    assert len(list(FOLDER.iterdir())) == 2 * len(RUNBOOKS)


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: str(path.name))
def test_runbook_has_the_expected_parameters_and_renders_the_expected_scripts(path: Path) -> None:
    expected = json.loads(path.with_name(path.name + ".json").read_text())
    if "error" in expected:
        with pytest.raises(TemplateError) as refused:
            parse(path.read_text())
        assert refused.value.message == expected["error"]
        return
    template = parse(path.read_text())
    assert [said(one) for one in template.parameters] == expected["parameters"]
    syntax = syntax_of(expected["subtype"], expected["command"], path.name)
    for case in expected["cases"]:
        if "error" in case:
            with pytest.raises(RenderError) as wrong:
                template.render(case["inputs"], syntax)
            assert wrong.value.message == case["error"]
            continue
        made = template.render(case["inputs"], syntax)
        assert made.text.split("\n") == case["script"], case["inputs"]
        assert made.environment == case.get("environment", {})
