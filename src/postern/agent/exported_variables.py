"""Selection of the agent's environment variables that a declared command can read."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from postern.domain.secret import Secret
from postern.domain.targets.connection import OWN_PREFIX, secret_key
from postern.errors import Invalid, Misconfigured

log = logging.getLogger(__name__)

# These come from the client's terminal, and not from the agent's.
_OF_TERMINALS = frozenset({"TERM", "COLUMNS", "LINES"})


def select_exported(environ: Mapping[str, str], patterns: Sequence[str]) -> dict[str, Secret]:
    """Return the variables by name. `patterns` are names with `*` and `?`; Postern's own variables match none. Raises
    Misconfigured for a pattern without a match."""
    reserved = {name for name in environ if name.upper().startswith(OWN_PREFIX)}
    secrets: dict[str, Secret] = {}
    for pattern in patterns:
        names = {name for name in environ if fnmatchcase(name, pattern)}
        if not names - reserved:
            why = f"{OWN_PREFIX}… variables are the agent's own" if names else "no variable matches it"
            raise Misconfigured(f"--export {pattern}: {why}; set the variable, or omit the option", field="export")
        secrets |= {name: Secret(environ[name]) for name in names - reserved - _OF_TERMINALS}
    return {name: value for name, value in sorted(secrets.items()) if _is_usable(name, value)}


def _is_usable(name: str, value: Secret) -> bool:
    try:
        value.reveal().encode()
        secret_key(f"envvar:{name}")
    except (UnicodeEncodeError, Invalid):
        log.warning("variable %r is not exported: commands cannot have such a name or value", name)
        return False
    return True
