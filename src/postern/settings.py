"""One frozen settings object, read once from flags and environment by the composition root.

Every field `x` is set by the environment variable `POSTERN_X`. Nothing else reads the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import get_type_hints

from postern.errors import Misconfigured


@dataclass(frozen=True, slots=True)
class Settings:
    """Durations are in seconds, sizes in bytes. Port 0 means: pick a free one."""

    home: Path
    host: str = "127.0.0.1"  # the address every listener binds to
    public_host: str = ""  # the name clients use in addresses; localhost when bound to loopback
    api_port: int = 7480
    postgres_port: int = 7432
    tunnel_port: int = 7443
    demo: bool = True
    demo_port: int = 7433
    workers: int = 1
    database_url: str = ""  # SQLAlchemy URL; SQLite in `home` when empty
    log_level: str = "info"
    log_format: str = "text"  # text or json
    tls_cert: str = ""  # PEM chain of your own server certificate; Postern makes one when empty
    tls_key: str = ""  # PEM private key of it
    handshake_timeout: float = 30.0
    dial_timeout: float = 10.0
    idle_timeout: float = 0.0  # 0: no limit
    max_duration: float = 48 * 3600.0
    max_handshakes: int = 1000  # connections not yet logged in, over all addresses
    max_handshakes_per_address: int = 200
    max_statement: int = 32 * 1024 * 1024  # the largest statement or value that is judged
    recording_output_limit: int = 16 * 1024 * 1024
    recording_sync_interval: float = 0.05

    @property
    def url(self) -> str:
        return self.database_url or f"sqlite+aiosqlite:///{self.home / 'postern.db'}"

    @property
    def address(self) -> str:
        """The host name that clients are told to use."""
        if self.public_host:
            return self.public_host
        return "localhost" if self.host in ("127.0.0.1", "::1", "localhost") else self.host

    @property
    def is_loopback(self) -> bool:
        return self.host in ("127.0.0.1", "::1", "localhost")

    @property
    def api_url(self) -> str:
        """Where clients find the API, without `/api`. Plain HTTP on loopback only."""
        scheme = "http" if self.is_loopback else "https"
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{scheme}://{host}:{self.api_port}"

    def environment(self) -> dict[str, str]:
        """These settings as the environment variables that `load` reads: what a child process is given."""
        return {f"POSTERN_{spec.name.upper()}": str(getattr(self, spec.name)) for spec in fields(self)}


def default_home(environ: Mapping[str, str]) -> Path:
    """`/var/lib/postern` for root (its services drop to another user), else the XDG data folder."""
    if os.geteuid() == 0:
        return Path("/var/lib/postern")
    base = environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "postern"


def load(environ: Mapping[str, str], **flags: object) -> Settings:
    """Flags that are not None win over the environment, which wins over the defaults."""
    hints = get_type_hints(Settings)
    values: dict[str, object] = {"home": default_home(environ)}
    for spec in fields(Settings):
        given = flags.get(spec.name)
        if given is None:
            given = environ.get(f"POSTERN_{spec.name.upper()}")
        if given is None or given == "":
            continue
        values[spec.name] = _convert(spec.name, given, hints[spec.name])
    values["home"] = Path(str(values["home"])).expanduser().resolve()
    return Settings(**values)  # type: ignore[arg-type]


def _convert(name: str, given: object, kind: type) -> object:
    if kind is bool and isinstance(given, str):
        words = {"1": True, "true": True, "yes": True, "on": True}
        words |= {"0": False, "false": False, "no": False, "off": False}
        if given.lower() not in words:
            raise Misconfigured(f"POSTERN_{name.upper()}: {given!r} is not yes or no", field=name)
        return words[given.lower()]
    try:
        return kind(given)
    except (TypeError, ValueError):
        raise Misconfigured(f"POSTERN_{name.upper()}: {given!r} is not a valid {kind.__name__}", field=name) from None
