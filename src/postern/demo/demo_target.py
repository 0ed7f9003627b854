"""The address and passwords of the demo target, stored in `$POSTERN_HOME/demo/target.json` (0600) by its process."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from postern.domain.secret import Secret
from postern.errors import Unavailable

DATABASE = "shop"
USER = "shop"
SUPERUSER = "postern_demo"


@dataclass(frozen=True, slots=True)
class DemoTarget:
    """`password` belongs to USER, `superuser_password` to SUPERUSER."""

    host: str
    port: int
    password: Secret
    superuser_password: Secret
    user: str = USER
    database: str = DATABASE


def path(home: Path) -> Path:
    return home / "demo" / "target.json"


def load(home: Path) -> DemoTarget:
    """Read the target. Raises Unavailable if the demo target has never run in this home, or its file is damaged."""
    try:
        target = json.loads(path(home).read_bytes())
        return DemoTarget(
            target["host"], int(target["port"]), Secret(target["password"]), Secret(target["superuser_password"])
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        raise Unavailable(
            f"the data folder {home} has no demo database; start it with `postern up`, or run without it: "
            "`postern up --no-demo`"
        ) from None


def save(home: Path, target: DemoTarget) -> None:
    folder = path(home).parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / ".target.json"
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(
            {
                "host": target.host,
                "port": target.port,
                "password": target.password.reveal(),
                "superuser_password": target.superuser_password.reveal(),
            },
            file,
        )
    draft.replace(path(home))
