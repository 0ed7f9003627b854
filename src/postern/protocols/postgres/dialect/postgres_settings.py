"""Effects of changing a setting of the session, by SET or by set_config()."""

from __future__ import annotations

from typing import Final

from postern.domain.rules.statement import Effect
from postern.protocols.postgres.dialect.postgres_findings import Findings
from postern.protocols.postgres.dialect.postgres_names import OWN
from postern.protocols.postgres.dialect.postgres_system_catalogue import SUPERUSER_SETTINGS

_WHO_ONE_IS: Final = frozenset({"role", "session_authorization"})
# Prefixes of encodings in which a byte below 128 is always the ASCII character, so that quotes and backslashes are
# where they appear: UTF-8, and single-byte encodings. The server ignores everything but letters and digits in a name.
_PLAIN_ENCODINGS: Final = (
    *("utf8", "unicode", "sqlascii", "latin", "iso8859", "koi8", "alt", "tcvn", "vscii", "abc", "default"),
    *("win125", "windows125", "win866", "win874", "windows866", "windows874"),
)


def change_setting(name: str, values: list[str] | None, findings: Findings) -> None:
    """Record the change of a setting. `values` are None if they are not in the text, and empty for a reset to the
    default."""
    name = name.lower()
    findings.effects.add(Effect.SESSION)
    if name in _WHO_ONE_IS:
        findings.effects.add(Effect.GRANT)
    elif name in SUPERUSER_SETTINGS:
        findings.effects.add(Effect.ADMIN)
    elif name == "client_encoding":
        plain = values is not None and all(_letters(encoding).startswith(_PLAIN_ENCODINGS) for encoding in values)
        if not plain:
            findings.encodes = True
            findings.unknown("it can set a client encoding in which later statements are misread")
    elif name == "search_path":
        path = None if values is None else [schema.strip(' "') for value in values for schema in value.split(",")]
        if path is None or OWN in path[1:]:
            findings.unknown("with such a search_path, names of built-in functions can mean other functions")


def _letters(encoding: str) -> str:
    return "".join(sign for sign in encoding.lower() if sign.isalnum())
