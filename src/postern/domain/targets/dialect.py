"""The query languages that rules can look into."""

from __future__ import annotations

from collections.abc import Mapping

from postern.protocols.registry import DEFAULT_PROTOCOL, PROTOCOLS

# By what is spoken with the target. A command has none, whatever it talks to: what a program makes of its input, only
# the program knows.
DIALECTS: Mapping[str, str] = {spec.name: spec.dialect.name for spec in PROTOCOLS.values() if spec.dialect is not None}
DEFAULT_DIALECT = DIALECTS[DEFAULT_PROTOCOL]
