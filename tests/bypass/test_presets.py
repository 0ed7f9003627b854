"""Each preset against the cases of each dialect that it is for: none that does what it is about gets through."""

from __future__ import annotations

import importlib

import pytest
from tests.bypass.presets import presets_of, score_of

DIALECTS = ("postgres", "mysql", "tsql", "oracle")
PAIRS = [(dialect, preset.name) for dialect in DIALECTS for preset in presets_of(dialect)]


@pytest.mark.parametrize(("dialect", "name"), PAIRS)
def test_a_preset_stops_what_it_is_about_and_lets_the_harmless_through(dialect: str, name: str) -> None:
    cases = importlib.import_module(f"tests.bypass.cases_{dialect}")
    (preset,) = (one for one in presets_of(dialect) if one.name == name)
    found = score_of(preset, cases)
    assert found.aimed, "there is no case of what it is about"
    assert [case.name for case in found.got_through] == []
    assert [case.name for case in found.stopped_for_nothing] == []
