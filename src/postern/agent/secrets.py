"""Secret references, resolved where the agent runs (spec 2.1, "Secret format")."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from postern.domain.connection import Connection, is_reference
from postern.domain.secret import Secret
from postern.errors import Unavailable


def environment_of(connection: Connection, environ: Mapping[str, str]) -> dict[str, Secret]:
    """The `envvar:` secrets by bare name, references resolved. Raises Unavailable naming what is missing."""
    plain = {key: value for key, value in connection.secret.items() if not is_reference(value.reveal())}
    found = _decoded(connection, plain)
    for key, value in connection.secret.items():
        kind, _, name = key.partition(":")
        if kind == "envvar" and key not in plain:
            found[name] = _resolve(connection.name, name, value.reveal(), environ)
    return found


def _decoded(connection: Connection, plain: Mapping[str, Secret]) -> dict[str, Secret]:
    return replace(connection, secret=plain).environment()


def _resolve(connection: str, name: str, reference: str, environ: Mapping[str, str]) -> Secret:
    provider, _, rest = reference.partition(":")
    variable, _, key = rest.partition(":")
    where = f"connection {connection!r}: secret {name}"
    if provider != "_envjson":
        raise Unavailable(f"{where} refers to {provider!r}, which this agent cannot resolve; it knows _envjson")
    try:
        value = json.loads(environ[variable])[key]
    except KeyError as missing:
        raise Unavailable(f"{where}: the agent's environment has no {missing.args[0]!r}") from None
    except (ValueError, TypeError):
        raise Unavailable(f"{where}: the environment variable {variable} does not hold a JSON object") from None
    return Secret(str(value))
