"""The shapes of MySQL's and MariaDB's statements; see `inspection.sql.shapes`.

Every sql_mode and every version reads such a text alike. It has no backslash and no comment. Double quotes, variables
and `#` are within its literals only, which no mode ends elsewhere. The text between the literals is ASCII.
"""

from __future__ import annotations

from typing import Final

from postern.inspection.sql.sql_shapes import NEVER, shapes_of
from postern.inspection.sql.sql_tokens import plain

MYSQL_SHAPES: Final = shapes_of(
    "`",
    "insert|replace",
    r"[\w.'$]",
    rf"[\\\0\ud800-\udfff\ufffd\ue000-\uf8ff{NEVER}",
    r"""["#@:$?{}\x80-\ud7ff\uf900-\U0010ffff]""",
    plain,
)
