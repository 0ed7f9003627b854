"""The query languages that rules can look into."""

from __future__ import annotations

from collections.abc import Mapping

# By what is spoken with the target. A command has none, whatever it talks to: what a program makes of its input, only
# the program knows.
DIALECTS: Mapping[str, str] = {"postgres": "postgres", "mysql": "mysql", "mssql": "tsql", "oracledb": "oracle"}
