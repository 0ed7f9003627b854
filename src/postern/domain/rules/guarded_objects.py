"""How a rule names objects.

    payroll            a schema, and every table in it
    payroll.*          the same
    payroll.salaries   a table (or view, or sequence) of a schema
    *.salaries         a table of that name in any schema
    set_salary()       a function or procedure of that name in any schema
    payroll.raise()    a function of a schema

A rule may match more than the server would, never less (decision 0038): names are compared without letter case,
accents, width of letters and trailing blanks, since some servers treat each of these as the same name. A name that
contains a dot or an asterisk, as only quoted ones can, cannot be written; deny its schema.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from postern.domain.rules.statement import EVERYTHING, ObjectKind, ObjectName
from postern.domain.targets.target_schema import TargetSchema
from postern.errors import Invalid

MAX_NAME_LENGTH = 256
_ANY = "*"
_CUT = 63  # bytes: what is longer, some servers cut
_DOTLESS = str.maketrans("\N{LATIN SMALL LETTER DOTLESS I}", "i")


@lru_cache(maxsize=8192)
def alike(name: str) -> str:
    """Return one form for all names that some server treats as the same."""
    if name.isascii():
        return name.rstrip().lower()[:_CUT]
    plain = unicodedata.normalize("NFKD", name).casefold().translate(_DOTLESS)
    base = "".join(sign for sign in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(sign))
    return base.rstrip().encode("utf-8", "surrogatepass")[:_CUT].decode("utf-8", "ignore")


@dataclass(frozen=True, slots=True)
class Guarded:
    """An object of `kind` SCHEMA, TABLE or FUNCTION; names as `alike` returns them. `schema` is empty for any."""

    kind: ObjectKind
    name: str
    schema: str = ""

    def hit_by(self, touched: ObjectName, target: TargetSchema | None = None) -> bool | None:
        """Return whether a statement's object matches; None: unknown, since it names no schema and the catalogue is not
        known.

        A name without a schema may be of any: sessions change their search_path by SET, set_config(), at login, and by
        settings of their role.
        """
        if touched == EVERYTHING:
            return True
        schema, name = alike(touched.schema), alike(touched.name)
        if touched.kind is ObjectKind.SCHEMA:
            # A statement on a whole schema affects everything in it.
            if self.kind is ObjectKind.SCHEMA or self.schema:
                return name == (self.schema or self.name)
            return target is not None and (name, self.name) in _places(target).of(self.kind)
        if self.kind is ObjectKind.SCHEMA:
            return schema == self.name if schema else self._may_hold(touched.kind, name, target)
        if touched.kind is not self.kind or name != self.name:
            return False
        return not self.schema or not schema or schema == self.schema

    def _may_hold(self, kind: ObjectKind, name: str, target: TargetSchema | None) -> bool | None:
        """Return whether this schema may have such an object, named without one. A function that is not known to be
        in it is one of the server's own, or of unknown effect."""
        if kind is ObjectKind.FUNCTION:
            return target is not None and (self.name, name) in _places(target).functions
        return None if target is None or not target.relations else (self.name, name) in _places(target).relations


@dataclass(frozen=True, slots=True)
class _Places:
    relations: frozenset[tuple[str, str]]
    functions: frozenset[tuple[str, str]]

    def of(self, kind: ObjectKind) -> frozenset[tuple[str, str]]:
        return self.functions if kind is ObjectKind.FUNCTION else self.relations


@lru_cache(maxsize=16)
def _places(target: TargetSchema) -> _Places:
    return _Places(_alike(target.relations), _alike(target.functions))


def _alike(keys: Iterable[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    return frozenset((alike(schema), alike(name)) for schema, name in keys)


def parse_guarded(spelled: str, field: str) -> Guarded:
    """Parse a name. Raises Invalid for one that cannot be read."""
    if len(spelled) > MAX_NAME_LENGTH:
        raise Invalid(f"{field}: a name has at most {MAX_NAME_LENGTH} characters", field=field)
    is_function = spelled.endswith("()")
    parts = [alike(part.strip()) for part in spelled.removesuffix("()").split(".")]
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
