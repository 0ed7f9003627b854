"""Secret references, resolved where the agent runs (spec 2.1, "Secret format")."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping

from postern.domain.connection import is_reference
from postern.domain.secret import Secret
from postern.errors import Unavailable
from postern.relay.orders import Order


def environment_of(order: Order, environ: Mapping[str, str]) -> dict[str, Secret]:
    """The `envvar:` secrets by bare name, references resolved. Raises Unavailable naming what is missing."""
    found = {}
    for key, value in order.secret.items():
        kind, _, name = key.partition(":")
        if kind != "envvar":
            continue
        text = value.reveal()
        if is_reference(text):
            found[name] = _resolve(order.connection, name, text, environ)
        else:
            found[name] = _decoded(order.connection, name, text)
    return found


def _decoded(connection: str, name: str, text: str) -> Secret:
    try:
        return Secret(base64.b64decode(text, validate=True).decode())
    except (binascii.Error, UnicodeDecodeError):
        raise Unavailable(f"connection {connection!r}: secret {name} is not base64 text; save it again") from None


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
