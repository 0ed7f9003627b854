"""The syntax of a database's URI; `agent/agent_database_uri.py` parses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SSL_MODES: Final = ("disable", "prefer", "require", "verify-ca", "verify-full")


@dataclass(frozen=True, slots=True)
class DatabaseUri:
    """The URI syntax of one kind of database.

    `schemes` is a pattern. `names` are aliases of settings, and `modes` are aliases of values of sslmode. If only
    authorities are given, sslmode is `mode_with_root`. `passed_over` are ignored settings, which affect neither the
    login nor its security. `keys` are further settings, with the target's keys that they set. `user_database`: the
    default database has the user's name. `whole_key`: the agent parses nothing but the database, and the target's key
    of this name gets the URI as it is.
    """

    subtype: str
    schemes: str
    port: int
    passed_over: frozenset[str]
    names: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    user_database: bool = False
    mode_with_root: str = "prefer"
    whole_key: str = ""

    @property
    def example(self) -> str:
        return f"{self.subtype}://USER:PASSWORD@HOST:PORT/DATABASE"

    @property
    def all_modes(self) -> tuple[str, ...]:
        """Return the values of sslmode as users of such databases know them."""
        return tuple(mode.upper() for mode in self.modes) or SSL_MODES

    def setting(self, name: str, value: str) -> tuple[str, str]:
        """Return a setting with its canonical name and value."""
        if (name, value) == ("ssl", "true"):  # as other drivers spell it
            return "sslmode", "require"
        name = self.names.get(name, name)
        return name, self.modes.get(value.lower(), value) if name == "sslmode" else value
