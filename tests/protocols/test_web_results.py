"""What the web application knows about protocols agrees with their registry."""

from __future__ import annotations

import re
from pathlib import Path

from postern.protocols.registry import PROTOCOLS

SCRIPTS = Path(__file__).resolve().parents[2] / "web" / "src" / "api" / "scripts.ts"


def names_in(constant: str) -> set[str]:
    match = re.search(rf"const {constant} = new Set\((.*?)\);", SCRIPTS.read_text(), re.DOTALL)
    assert match is not None
    return set(re.findall(r'"(\w+)"', match[1]))


def test_web_application_shows_rows_for_every_protocol_that_has_them() -> None:
    assert names_in("WITH_ROWS") == {spec.name for spec in PROTOCOLS.values() if spec.results is not None}


def test_web_application_knows_protocols_whose_bytes_are_not_read() -> None:
    assert names_in("OPAQUE") == {spec.name for spec in PROTOCOLS.values() if spec.is_opaque}
