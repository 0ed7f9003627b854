"""The registry of protocols: the only module that names all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from postern.protocols.command.spec import COMMAND
from postern.protocols.mysql.spec import MYSQL
from postern.protocols.postgres.spec import POSTGRES
from postern.protocols.spec import ProtocolSpec
from postern.protocols.ssh.spec import SSH

PROTOCOLS: Final[Mapping[str, ProtocolSpec]] = {spec.name: spec for spec in (POSTGRES, MYSQL, SSH, COMMAND)}

COMMAND_PROTOCOL: Final = COMMAND.name  # used for any target that has a command and no protocol of its own
SSH_PROTOCOL: Final = SSH.name
DEFAULT_PROTOCOL: Final = POSTGRES.name  # for requests that name no protocol, from older command lines
