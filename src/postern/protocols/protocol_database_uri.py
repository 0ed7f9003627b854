"""How the URI of a database is spelled; `agent/agent_database_uri.py` reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SSL_MODES: Final = ("disable", "prefer", "require", "verify-ca", "verify-full")


@dataclass(frozen=True, slots=True)
class DatabaseUri:
    """How one kind of databases is named. `schemes` is a pattern. `names` are other spellings of settings, `modes` of
    values of sslmode, which is `mode_with_root` where only authorities are given. `passed_over` are settings that
    change nothing of who is logged in to what, and how that is kept safe. `user_database`: without a database, the one
    that is named like the user."""

    subtype: str
    schemes: str
    port: int
    passed_over: frozenset[str]
    names: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)
    user_database: bool = False
    mode_with_root: str = "prefer"

    @property
    def example(self) -> str:
        return f"{self.subtype}://USER:PASSWORD@HOST:PORT/DATABASE"

    @property
    def all_modes(self) -> tuple[str, ...]:
        """Values of sslmode, as people who use such databases know them."""
        return tuple(mode.upper() for mode in self.modes) or SSL_MODES

    def setting(self, name: str, value: str) -> tuple[str, str]:
        """By the name and in the spelling that are used here."""
        if (name, value) == ("ssl", "true"):  # as other drivers have it
            return "sslmode", "require"
        name = self.names.get(name, name)
        return name, self.modes.get(value.lower(), value) if name == "sslmode" else value
