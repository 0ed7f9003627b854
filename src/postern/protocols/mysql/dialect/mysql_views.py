"""The tables that the views of a MySQL or MariaDB target read (see `inspection.sql.view_reach`).

The catalogue has the text of each view, with the database of every table.
"""

from __future__ import annotations

import re
from typing import Final

from postern.domain.rules.statement import ObjectName
from postern.inspection.sql.view_reach import DialectViews

# Only the server's owner can create views there, and reading its own shows no rows of other databases.
_SYSTEM: Final = frozenset({"information_schema", "performance_schema", "sys"})
_SEQUENCE_TABLE: Final = re.compile(r"seq_\d+_to_\d+(_step_\d+)?")  # of MariaDB: its engine computes the rows


def _is_of_system(name: ObjectName) -> bool:
    if name.schema.lower() in _SYSTEM:
        return True
    plain = name.name.lower()
    return (plain == "dual" and not name.schema) or _SEQUENCE_TABLE.fullmatch(plain) is not None


VIEWS: Final = DialectViews(
    _SYSTEM, _is_of_system, "if its definition is hidden, grant SHOW VIEW on it to the connection's user"
)
