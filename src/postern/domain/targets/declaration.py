"""The declaration of an embedded agent about the one connection that it serves.

It has no secrets: the target's address and credentials stay with the agent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from postern.domain.rules.masking import check_redact_types
from postern.domain.targets.connection import ConnectionType, check_database, check_list, check_new_name, check_tags
from postern.domain.text import one_line
from postern.errors import Invalid


@dataclass(frozen=True, slots=True)
class Declaration:
    """The fields of a Connection. `default_database` is the database that clients are offered; empty for none."""

    name: str
    type: ConnectionType
    subtype: str
    command: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    redact_types: tuple[str, ...] = ()
    connection_tags: Mapping[str, str] = field(default_factory=dict)
    default_database: str = ""

    def check(self) -> None:
        """Check what can be checked without a gateway. Raises Invalid."""
        check_new_name(self.name)
        check_tags(self.connection_tags)
        check_redact_types(self.redact_types)
        check_list(self.redact_types, "redact_types")
        check_list(self.reviewers, "reviewers")
        check_list(self.command, "command")
        if any("\0" in word for word in self.command) or (self.command and not self.command[0]):
            raise Invalid("command: must begin with a program, and contain no NUL", field="command")
        if not all(group and one_line(group) == group for group in self.reviewers):
            raise Invalid("reviewers: each must be the name of a group", field="reviewers")
        if self.default_database:
            check_database(self.default_database)
