"""The shapes of PostgreSQL's statements; see `inspection.sql.shapes`."""

from __future__ import annotations

from typing import Final

from postern.inspection.sql.sql_shapes import NEVER, shapes_of

POSTGRES_SHAPES: Final = shapes_of('"', "insert", r"[\w.']", rf"[\\$\0\ue000-\uf8ff{NEVER}", r"(?!)", str)
