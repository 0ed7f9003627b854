"""The registry of protocols: the only module that names all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from postern.protocols.cloudwatch.spec import CLOUDWATCH
from postern.protocols.command.spec import COMMAND
from postern.protocols.dynamodb.spec import DYNAMODB
from postern.protocols.httpproxy.spec import HTTPPROXY
from postern.protocols.mongodb.spec import MONGODB
from postern.protocols.mssql.spec import MSSQL
from postern.protocols.mysql.spec import MYSQL
from postern.protocols.oracledb.spec import ORACLEDB
from postern.protocols.postgres.spec import POSTGRES
from postern.protocols.spec import ProtocolSpec
from postern.protocols.ssh.spec import SSH
from postern.protocols.tcp.spec import TCP

_SPECS: Final = (
    POSTGRES,
    MYSQL,
    MSSQL,
    ORACLEDB,
    MONGODB,
    HTTPPROXY,
    DYNAMODB,
    CLOUDWATCH,
    SSH,
    TCP,
    COMMAND,
)

PROTOCOLS: Final[Mapping[str, ProtocolSpec]] = {spec.name: spec for spec in _SPECS}

COMMAND_PROTOCOL: Final = COMMAND.name  # used for any target that has a command and no protocol of its own
SSH_PROTOCOL: Final = SSH.name
DEFAULT_PROTOCOL: Final = POSTGRES.name  # for requests that name no protocol, from older command lines
