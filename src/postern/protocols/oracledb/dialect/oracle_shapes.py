"""The shapes of Oracle's statements; see `inspection.sql.sql_shapes`.

Every session reads such a text alike: it has no quoted names, variables, links or comments outside of its literals, and
no line that begins with `/`, which client tools take for the end of a statement.
"""

from __future__ import annotations

from typing import Final

from postern.inspection.sql.sql_shapes import NEVER, shapes_of
from postern.inspection.sql.sql_tokens import plain

ORACLE_SHAPES: Final = shapes_of(
    '"',
    "insert",
    r"[\w.'$#]",
    rf"[\0\ud800-\udfff\ufffd\ue000-\uf8ff{NEVER}",
    r"""["@:?{}\[\]\x80-\ud7ff\uf900-\U0010ffff]|(?m:^[ \t]*/)""",
    plain,
)
