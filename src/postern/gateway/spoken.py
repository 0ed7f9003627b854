"""What this room has to know of each protocol, and finds here by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from postern.domain.connection import SSH, TERMINAL
from postern.protocols.asking import Catalogue, Script
from postern.protocols.mysql.catalogue import CATALOGUE as MYSQL
from postern.protocols.mysql.chosen import own as mysql_parameters
from postern.protocols.mysql.script import Script as MysqlScript
from postern.protocols.postgres.catalogue import CATALOGUE as POSTGRES
from postern.protocols.postgres.script import Script as PostgresScript
from postern.protocols.terminal.script import Script as CommandScript


def _postgres(name: str) -> Mapping[str, str]:
    return {"application_name": name, "client_encoding": "UTF8"}


def _nothing(name: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class Spoken:
    """`script` makes what `exec` runs of its text; `parameters` are those of a login of the gateway's own, which is to
    be known at the target by a name. `catalogue` is None where there is only a login to test."""

    script: Callable[[str], Script]
    parameters: Callable[[str], Mapping[str, str]] = _nothing
    catalogue: Catalogue | None = None
    tested_by_login: bool = False


SPOKEN: Mapping[str, Spoken] = {
    "postgres": Spoken(PostgresScript, _postgres, POSTGRES),
    "mysql": Spoken(MysqlScript, mysql_parameters, MYSQL),
    SSH: Spoken(CommandScript, tested_by_login=True),
    TERMINAL: Spoken(CommandScript),
}


def catalogue_of(protocol: str) -> Catalogue | None:
    spoken = SPOKEN.get(protocol)
    return None if spoken is None else spoken.catalogue
