"""Each preset against the cases of its dialects: all matching cases are denied."""

from __future__ import annotations

import importlib

import pytest
from tests.bypass.presets import presets_of, score_of

DIALECTS = ("postgres", "mysql", "tsql", "oracle")
PAIRS = [(dialect, preset.name) for dialect in DIALECTS for preset in presets_of(dialect)]


@pytest.mark.parametrize(("dialect", "name"), PAIRS)
def test_preset_denies_its_attacks_and_passes_harmless_statements(dialect: str, name: str) -> None:
    cases = importlib.import_module(f"tests.bypass.cases_{dialect}")
    (preset,) = (one for one in presets_of(dialect) if one.name == name)
    found = score_of(preset, cases)
    assert found.aimed, "no case matches this preset"
    assert [case.name for case in found.got_through] == []
    assert [case.name for case in found.stopped_for_nothing] == []
