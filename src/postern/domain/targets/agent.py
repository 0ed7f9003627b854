"""An Agent: the process near the targets that dials out to the gateway.

    grpcs://edge:xagt-…@gateway.example:7444?ca=…      the key, shown once: all that an agent needs to know

The built-in agent lives in its relay workers, and needs no key.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit
from uuid import UUID

from postern.domain.secret import NO_SECRET, Secret
from postern.domain.text import one_line
from postern.errors import Misconfigured

# An agent says "I live" every few seconds; after this silence it counts as gone.
ALIVE_FOR = timedelta(seconds=15)

SECRET_PREFIX = "xagt-"  # noqa: S105 - what secrets begin with
SECRET_FORM = re.compile(r"xagt-[A-Za-z0-9_-]{43}")
MAX_FACT = 256  # characters
MOST_INSTANCES = 64  # of one agent, at once

# What an agent may tell of itself.
FACTS = ("version", "hostname", "platform", "machine_id", "kernel_version", "python_version")


def cleaned_facts(facts: Mapping[str, str]) -> dict[str, str]:
    """Return the facts of an untrusted agent: only FACTS, each on one line of at most MAX_FACT characters, without
    control characters."""
    return {name: one_line(facts[name][:MAX_FACT])[:MAX_FACT] for name in FACTS if facts.get(name)}


class AgentMode(StrEnum):
    """GATEWAY: in the gateway's own processes. STANDARD: serves the connections that are configured for it.
    EMBEDDED: in an application's container; it declares its own connection."""

    GATEWAY = "gateway"
    STANDARD = "standard"
    EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class Agent:
    """`digest` is the SHA-256 of its secret; None for the gateway's own. `facts` are those of FACTS. `version`
    counts its keys, and `key` is the whole line that it is started with, empty except right after its creation."""

    id: UUID
    org_id: UUID
    name: str
    mode: AgentMode
    last_seen: datetime | None
    created_at: datetime
    digest: bytes | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    updated_at: datetime | None = None
    version: int = 1
    key: Secret = NO_SECRET
    managed_by: str | None = None

    def is_online(self, now: datetime) -> bool:
        return self.last_seen is not None and now - self.last_seen < ALIVE_FOR


@dataclass(frozen=True, slots=True)
class AgentKey:
    """`authority` is the DER form of the CA that issued the gateway's certificate; None for a public one."""

    name: str
    secret: Secret
    host: str
    port: int
    mode: AgentMode = AgentMode.STANDARD
    authority: bytes | None = None

    def text(self) -> Secret:
        query: dict[str, str] = {"mode": self.mode}
        if self.authority is not None:
            query["ca"] = base64.urlsafe_b64encode(self.authority).decode().rstrip("=")
        host = f"[{self.host}]" if ":" in self.host else self.host
        who = f"{quote(self.name, safe='')}:{self.secret.reveal()}"
        return Secret(f"grpcs://{who}@{host}:{self.port}?{urlencode(query)}")

    @classmethod
    def read(cls, text: Secret) -> AgentKey:
        """Parse a key. Raises Misconfigured, which does not repeat the secret."""
        try:
            parts = urlsplit(text.reveal().strip())
            query = parse_qs(parts.query, strict_parsing=bool(parts.query))
            authority = query.get("ca", [""])[0]
            key = cls(
                name=unquote(parts.username or ""),
                secret=Secret(parts.password or ""),
                host=parts.hostname or "",
                port=parts.port or 0,
                mode=AgentMode(query.get("mode", ["standard"])[0]),
                authority=base64.urlsafe_b64decode(authority + "=" * (-len(authority) % 4)) if authority else None,
            )
        except (ValueError, binascii.Error):
            key = None
        whole = key is not None and key.name and key.host and key.port
        if key is None or not whole or parts.scheme != "grpcs" or not SECRET_FORM.fullmatch(key.secret.reveal()):
            raise Misconfigured(
                "this is not an agent key; copy the whole line that `postern admin agents create` printed, "
                "grpcs://NAME:xagt-…@HOST:PORT?…",
                field="key",
            )
        return key
