"""How a rule spells the objects that it is about.

    payroll            a schema, and every table in it
    payroll.*          the same
    payroll.salaries   a table (or view, or sequence) of a schema
    *.salaries         a table of that name in any schema
    set_salary()       a function or procedure of that name in any schema
    payroll.raise()    a function of a schema

Letter case does not matter: a rule may hit more than the server would, never less. A name that holds a dot or an
asterisk itself, as only quoted ones can, cannot be spelled; deny its schema.
"""

from __future__ import annotations

from dataclasses import dataclass

from postern.domain.statement import ObjectKind, ObjectName
from postern.domain.target_schema import TargetSchema
from postern.errors import Invalid

MAX_NAME_LENGTH = 256
_ANY = "*"


@dataclass(frozen=True, slots=True)
class Guarded:
    """Of `kind` SCHEMA, TABLE or FUNCTION; names in lower case. `schema` is empty for any."""

    kind: ObjectKind
    name: str
    schema: str = ""

    def hit_by(self, touched: ObjectName, target: TargetSchema | None = None) -> bool | None:
        """None: it cannot be told, since the statement names no schema and the target's catalogue is not known."""
        schema, name = touched.schema.lower(), touched.name.lower()
        if touched.kind is ObjectKind.SCHEMA:
            # Whoever touches a schema as a whole touches what is in it.
            return name == (self.name if self.kind is ObjectKind.SCHEMA else self.schema)
        if self.kind is ObjectKind.SCHEMA:
            if schema or touched.kind is ObjectKind.FUNCTION:
                return schema == self.name
            return None if target is None or not target.relations else _is_in(self.name, name, target)
        if touched.kind is not self.kind or name != self.name:
            return False
        return not self.schema or not schema or schema == self.schema


def _is_in(schema: str, name: str, target: TargetSchema) -> bool:
    return any(in_schema.lower() == schema and known.lower() == name for in_schema, known in target.relations)


def guarded(spelled: str, field: str) -> Guarded:
    """Raises Invalid for what cannot be read."""
    if len(spelled) > MAX_NAME_LENGTH:
        raise Invalid(f"{field}: a name has at most {MAX_NAME_LENGTH} characters", field=field)
    is_function = spelled.endswith("()")
    parts = [part.strip().lower() for part in spelled.removesuffix("()").split(".")]
    schema, name = parts if len(parts) == 2 else ("", parts[0])
    is_wrong = len(parts) > 2 or not all(parts) or any(character in "()\0" for part in parts for character in part)
    if is_wrong or any(_ANY in part and part != _ANY for part in parts) or parts in ([_ANY], [_ANY, _ANY]):
        raise Invalid(
            f"{field}: {spelled!r} must be schema, schema.table, schema.*, *.table, function() or schema.function()",
            field=field,
        )
    if is_function:
        if name == _ANY:
            raise Invalid(f"{field}: {spelled!r} must name the function", field=field)
        return Guarded(ObjectKind.FUNCTION, name, "" if schema == _ANY else schema)
    if not schema or name == _ANY:
        return Guarded(ObjectKind.SCHEMA, schema or name)
    return Guarded(ObjectKind.TABLE, name, "" if schema == _ANY else schema)
