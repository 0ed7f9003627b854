"""Hosts of HTTP applications: each connection that people open in a browser has a host of its own below one domain.

    connection Grafana_2 ─ host_label ─▶ grafana-2 ─ domain apps.example.com ─▶ grafana-2.apps.example.com

So paths, cookies and links of applications stay as they are, and no application can read another one's pages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from postern.errors import Misconfigured
from postern.protocols.registry import PROTOCOLS

WEB = frozenset(spec.name for spec in PROTOCOLS.values() if spec.is_web)
SETTING: Final = "httpproxy_domain"
_MAX_LABEL: Final = 63  # RFC 1035
_NO_NAME: Final = "x"  # the label of a name without letters and digits
_DOMAIN: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_AUTHORITY: Final = re.compile(r"(?P<label>[a-z0-9-]{1,63})\.(?P<domain>[a-z0-9.-]*[a-z0-9])\.?(?::[0-9]*)?")
_MAX_DOMAIN: Final = 253 - _MAX_LABEL - 1
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def host_label(name: str) -> str:
    """Return the first label of the host of a connection: lower case, with `-` for `.` and `_`.

    Several in a row become one, as labels such as `xn--…` have a meaning of their own. Different names can have one
    label.
    """
    label = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return label[:_MAX_LABEL].rstrip("-") or _NO_NAME


@dataclass(frozen=True, slots=True)
class AppDomain:
    """The domain of all applications. `port` is the one that browsers use; None for that of the listener."""

    name: str = "localhost"
    port: int | None = None

    @classmethod
    def read(cls, text: str) -> AppDomain:
        """Read `DOMAIN` or `DOMAIN:PORT`. Raises Misconfigured."""
        name, colon, port = text.strip().lower().partition(":")
        name = name.removeprefix("*.").rstrip(".")
        if len(name) > _MAX_DOMAIN or not _DOMAIN.fullmatch(name) or name.rpartition(".")[2].isdigit():
            raise Misconfigured(
                f"POSTERN_{SETTING.upper()}: {text!r} is not a domain; set a name below which every host leads to this "
                "gateway, such as apps.example.com, or apps.example.com:443 if browsers use another port than that of "
                "the listener",
                field=SETTING,
            )
        if colon and not (port.isascii() and port.isdecimal() and 1 <= int(port) <= 65_535):
            raise Misconfigured(f"POSTERN_{SETTING.upper()}: {port!r} is not a port from 1 to 65535", field=SETTING)
        return cls(name, int(port) if colon else None)

    @property
    def wildcard(self) -> str | None:
        """Return the name that a certificate needs; None for a domain of one label, below which clients accept no
        wildcard."""
        return f"*.{self.name}" if "." in self.name else None

    def host_of(self, name: str) -> str:
        """Return the host of the connection of that name."""
        return f"{host_label(name)}.{self.name}"

    def label_of(self, authority: str) -> str | None:
        """Return the label of a host, with or without a port; None for a host that is not below this domain."""
        parts = _AUTHORITY.fullmatch(authority.lower())
        return parts["label"] if parts is not None and parts["domain"] == self.name else None

    def url_of(self, name: str, scheme: str, listener_port: int) -> str:
        """Return the address of the connection of that name, without a path."""
        port = self.port or listener_port
        shown = "" if port == _DEFAULT_PORTS[scheme] else f":{port}"
        return f"{scheme}://{self.host_of(name)}{shown}"
