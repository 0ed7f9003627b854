"""How a rule names objects.

    payroll            a schema, and every table in it
    payroll.*          the same
    payroll.salaries   a table (or view, or sequence) of a schema
    *.salaries         a table of that name in any schema
    set_salary()       a function or procedure of that name in any schema
    payroll.raise()    a function of a schema
    shop.fs.files      a table whose name contains a dot; also fs.files and *.fs.files, in any schema
    shop.fs.*          the tables of a schema whose names begin with `fs.`
    /admin/users       the path of a URL, with or without a slash at its end
    /admin/*           a path, and everything below it; `*` stands for any text elsewhere: `/api/*/secrets`

A rule may match more than the server would, never less (decision 0038): names are compared without letter case,
accents, width of letters and trailing blanks, since some servers treat each of these as the same name. A name with
dots is read in every way: `fs.files` is a table of the schema `fs`, and a table `fs.files` of any schema. A name that
contains an asterisk cannot be written; deny its schema. Paths are compared without letter case.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from postern.domain.rules.statement import EVERYTHING, ObjectKind, ObjectName
from postern.domain.targets.target_schema import TargetSchema
from postern.errors import Invalid

MAX_NAME_LENGTH = 256
_ANY = "*"
_BEGINNING = ".*"
_MAX_PARTS = 12
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


@lru_cache(maxsize=1024)
def _path_pattern(path: str) -> re.Pattern[str]:
    """Return a pattern for all paths that a rule's path stands for."""
    tree = path.endswith("/*")
    parts = path.removesuffix("/*").casefold().rstrip("/").split(_ANY)
    return re.compile(".*".join(map(re.escape, parts)) + ("(?:/.*)?" if tree else "/*"), re.DOTALL)


@dataclass(frozen=True, slots=True)
class Guarded:
    """An object of `kind` SCHEMA, TABLE, FUNCTION or PATH; names as `alike` returns them. `schema` is empty for any.

    A `name` that ends with `.*` stands for all that begin alike. `others` are what the same spelling can also mean.
    """

    kind: ObjectKind
    name: str
    schema: str = ""
    others: tuple[Guarded, ...] = ()

    def hit_by(self, touched: ObjectName, target: TargetSchema | None = None) -> bool | None:
        """Return whether a statement's object matches; None: unknown, since it names no schema and the catalogue is not
        known.

        A name without a schema may be of any: sessions change their search_path by SET, set_config(), at login, and by
        settings of their role.
        """
        if touched == EVERYTHING:
            return True
        if not self.others:
            return self._is_hit(touched, target)
        hits = [guarded._is_hit(touched, target) for guarded in (self, *self.others)]
        return True if True in hits else None if None in hits else False

    def _is_hit(self, touched: ObjectName, target: TargetSchema | None) -> bool | None:
        if ObjectKind.PATH in (self.kind, touched.kind):
            path = touched.name.casefold().rstrip("/")
            return self.kind is touched.kind and _path_pattern(self.name).fullmatch(path) is not None
        schema, name = alike(touched.schema), alike(touched.name)
        if touched.kind is ObjectKind.SCHEMA:
            # A statement on a whole schema affects everything in it.
            if self.kind is ObjectKind.SCHEMA or self.schema:
                return name == (self.schema or self.name)
            return target is not None and self._is_in(name, _places(target).of(self.kind))
        if self.kind is ObjectKind.SCHEMA:
            return schema == self.name if schema else self._may_hold(touched.kind, name, target)
        if touched.kind is not self.kind or not self._is_named(name):
            return False
        return not self.schema or not schema or schema == self.schema

    def _is_named(self, name: str) -> bool:
        return name.startswith(self.name[:-1]) if self.name.endswith(_BEGINNING) else name == self.name

    def _is_in(self, schema: str, places: frozenset[tuple[str, str]]) -> bool:
        if not self.name.endswith(_BEGINNING):
            return (schema, self.name) in places
        return any(place == schema and self._is_named(name) for place, name in places)

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
    if spelled.startswith("/"):
        return _parse_path(spelled, field)
    is_function = spelled.endswith("()")
    parts = [alike(part.strip()) for part in spelled.removesuffix("()").split(".")]
    stars = [place for place, part in enumerate(parts) if _ANY in part]
    is_wrong = not all(parts) or any(character in "()\0" for part in parts for character in part)
    is_wrong = is_wrong or len(parts) > (2 if is_function else _MAX_PARTS) or len(stars) == len(parts)
    if is_wrong or any(parts[place] != _ANY or place not in (0, len(parts) - 1) for place in stars):
        raise Invalid(
            f"{field}: {spelled!r} must be schema, schema.table, schema.*, *.table, function() or schema.function()",
            field=field,
        )
    schema = "" if parts[0] == _ANY or len(parts) == 1 else parts[0]
    if is_function:
        if parts[-1] == _ANY:
            raise Invalid(f"{field}: {spelled!r} must name the function", field=field)
        return Guarded(ObjectKind.FUNCTION, parts[-1], schema)
    if len(parts) == 1:
        return Guarded(ObjectKind.SCHEMA, parts[0])
    tables = {(schema, ".".join(parts[1:])): None}
    if parts[0] != _ANY:
        tables["", ".".join(parts)] = None  # its name can contain the dots
    if len(parts) > 2 and parts[-1] != _ANY:
        tables["" if parts[-2] == _ANY else parts[-2], parts[-1]] = None  # database.schema.table
    readings = [Guarded(ObjectKind.TABLE, name, schema) for schema, name in tables if name != _ANY]
    if parts[-1] == _ANY:
        readings.insert(0, Guarded(ObjectKind.SCHEMA, parts[-2]))
    return Guarded(readings[0].kind, readings[0].name, readings[0].schema, tuple(readings[1:]))


_NOT_IN_PATHS = re.compile(r"[\x00-\x20\x7f?#]|//|/\.{1,2}(?:/|$)")


def _parse_path(spelled: str, field: str) -> Guarded:
    """Parse a path of a URL. Raises Invalid for one that no request has after it was decoded and simplified."""
    if _NOT_IN_PATHS.search(spelled):
        raise Invalid(
            f"{field}: {spelled!r} must be a path without a query, without blanks and without empty or dot segments",
            field=field,
        )
    return Guarded(ObjectKind.PATH, spelled)
