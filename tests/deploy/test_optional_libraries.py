"""Messages about optional libraries name what an index has: no package of Postern is published there."""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from postern.domain.rules.masking import check_types
from postern.errors import Invalid, Misconfigured
from postern.settings import Settings
from postern.wiring import language_wiring

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = {
    re.split("[<>=]", library)[0]
    for name, libraries in PROJECT["optional-dependencies"].items()
    if name not in ("dev", "release")
    for library in libraries
}
SOURCES = sorted((ROOT / "src" / "postern").rglob("*.py"))


def test_no_message_names_an_extra_of_an_unpublished_package() -> None:
    assert [path.name for path in SOURCES if "postern[" in path.read_text()] == []


def test_libraries_that_messages_name_are_the_optional_ones() -> None:
    named = set()
    for path in SOURCES:
        named |= set(re.findall(r"pip install '?([a-z][\w.\[\]-]*)", path.read_text()))
    assert named
    assert named <= OPTIONAL


def test_missing_presidio_is_named_with_its_install_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "postern.integrations.presidio", raising=False)
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    settings = replace(Settings(home=tmp_path), masking_language_model="en_core_web_sm")
    with pytest.raises(Misconfigured, match=r"run: pip install presidio-analyzer$"):
        language_wiring.provide_language_model(settings)


def test_types_that_need_presidio_say_what_to_install() -> None:
    with pytest.raises(Invalid, match="install presidio-analyzer and to set POSTERN_MASKING_LANGUAGE_MODEL"):
        check_types(["PERSON"], frozenset(), "types")
