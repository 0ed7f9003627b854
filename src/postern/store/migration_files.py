"""What the files of the migrations say about themselves, without Alembic, which takes half a second to load."""

from __future__ import annotations

import ast
import re
from pathlib import Path

FOLDER = Path(__file__).parent / "migrations"
_FACT = re.compile(r"^(revision|down_revision)\b[^=\n]*=\s*(.+)$", re.MULTILINE)


def newest() -> frozenset[str]:
    """Return the versions that a store of this code has: those that no migration continues."""
    return frozenset(_read("revision") - _read("down_revision"))


def list_known() -> frozenset[str]:
    """Return all versions of stores that this code can migrate or has."""
    return frozenset(_read("revision"))


def _read(fact: str) -> set[str]:
    versions: set[str] = set()
    for file in (FOLDER / "versions").glob("v*.py"):
        versions.update(_versions(dict(_FACT.findall(file.read_text()))[fact]))
    return versions


def _versions(text: str) -> tuple[str, ...]:
    """Read none, one or several versions."""
    value = ast.literal_eval(text)
    if isinstance(value, tuple):
        return value
    return () if value is None else (str(value),)
