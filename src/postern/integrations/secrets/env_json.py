"""`_envjson`: a JSON object in a variable of the agent's environment."""

from __future__ import annotations

from collections.abc import Mapping

from postern.domain.secret import Secret
from postern.domain.targets.connection import OWN_PREFIX
from postern.errors import Unavailable
from postern.integrations.secrets.source import Document


class EnvironmentSecrets:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = referable(environ)

    async def fetch(self, name: str) -> Document:
        text = self._environ.get(name)
        if text is None:
            raise Unavailable(f"the agent's environment has no {name!r}")
        return Document(Secret(text))


def referable(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables that connections can refer to: never our own settings, some of which are secrets, and never
    the key of a trace collector."""
    return {name: value for name, value in environ.items() if not name.upper().startswith((OWN_PREFIX, "OTEL_"))}
