"""Reading a PostgreSQL target's catalogue as a TargetSchema: the statements, and the conversion of their rows.

Any user of the target can run them. They empty the search_path, so that view definitions name everything with its
schema, and they call no function of the target's users. PostgreSQL 12 and later.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from postern.domain.targets.target_schema import Function, Relation, TargetSchema
from postern.errors import ProtocolViolation
from postern.protocols.gateway_queries import Row, tags, text

_PATH = "select s from pg_catalog.unnest(pg_catalog.current_schemas(true)) s"

_EMPTY_PATH = "select pg_catalog.set_config('search_path', '', false)"

# Comments are read only where they can contain a tag.
_RELATIONS = r"""
select c.oid, n.nspname, c.relname,
  case when c.relkind in ('v', 'm') and n.nspname not in ('pg_catalog', 'information_schema')
    then pg_catalog.pg_get_viewdef(c.oid) end,
  (select pg_catalog.json_agg(case when a.attisdropped then '' else a.attname end order by a.attnum)
    from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attnum > 0),
  (select pg_catalog.json_agg(pg_catalog.json_build_array(pn.nspname, pc.relname))
    from pg_catalog.pg_inherits i join pg_catalog.pg_class pc on pc.oid = i.inhparent
      join pg_catalog.pg_namespace pn on pn.oid = pc.relnamespace
    where i.inhrelid = c.oid),
  (select pg_catalog.json_object_agg(a.attname, pg_catalog.pg_get_expr(d.adbin, d.adrelid))
    from pg_catalog.pg_attrdef d join pg_catalog.pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
    where d.adrelid = c.oid and a.attgenerated <> ''),
  (select pg_catalog.json_object_agg(coalesce(a.attname, ''), o.description)
    from pg_catalog.pg_description o
      left join pg_catalog.pg_attribute a on a.attrelid = o.objoid and a.attnum = o.objsubid and o.objsubid > 0
    where o.objoid = c.oid and o.classoid = 'pg_catalog.pg_class'::pg_catalog.regclass and o.description like '%#%'),
  (select pg_catalog.json_agg(coalesce(nullif(t.typbasetype, 0), a.atttypid) order by a.attnum)
    from pg_catalog.pg_attribute a left join pg_catalog.pg_type t on t.oid = a.atttypid
    where a.attrelid = c.oid and a.attnum > 0)
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
  and n.nspname not like 'pg\_toast%' and n.nspname not like 'pg\_temp\_%'"""

# The server's own functions have OIDs below 16384. An aggregate has no volatility of its own; its functions decide.
_FUNCTIONS = """
select n.nspname, p.proname, pg_catalog.bool_and(p.provolatile in ('i', 's') and not p.prosecdef
    and not exists (select 1 from pg_catalog.pg_aggregate g join pg_catalog.pg_proc f
      on f.oid in (g.aggtransfn, g.aggfinalfn, g.aggmtransfn, g.aggminvtransfn, g.aggmfinalfn)
      where g.aggfnoid = p.oid and (f.provolatile = 'v' or f.prosecdef))),
  pg_catalog.bool_and(p.provolatile = 'i' and l.lanname in ('c', 'internal') and p.prokind in ('f', 'w'))
from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
  join pg_catalog.pg_language l on l.oid = p.prolang
where p.oid >= 16384 group by n.nspname, p.proname"""

_OPERATORS = """
select n.nspname, o.oprname, pg_catalog.bool_and(p.provolatile in ('i', 's') and not p.prosecdef),
  pg_catalog.bool_and(p.provolatile = 'i' and l.lanname in ('c', 'internal'))
from pg_catalog.pg_operator o join pg_catalog.pg_namespace n on n.oid = o.oprnamespace
  join pg_catalog.pg_proc p on p.oid = o.oprcode join pg_catalog.pg_language l on l.oid = p.prolang
where o.oid >= 16384 group by n.nspname, o.oprname"""

# The parts of each type, as OIDs, and whether the type itself is harmless: no base type, whose input function may be
# custom code, no domain with a check, and none with a cast by a volatile function.
_TYPES = """
select t.oid, n.nspname, t.typname,
  case t.typtype when 'd' then not exists (
      select 1 from pg_catalog.pg_constraint k where k.contypid = t.oid and k.contype = 'c')
    when 'b' then l.lanname in ('c', 'internal') and p.provolatile in ('i', 's') else true end
    and not exists (
      select 1 from pg_catalog.pg_cast y join pg_catalog.pg_proc f on f.oid = y.castfunc
      where t.oid in (y.castsource, y.casttarget) and (f.provolatile = 'v' or f.prosecdef)),
  case when t.typtype = 'd' then pg_catalog.json_build_array(t.typbasetype)
    when t.typelem <> 0 then pg_catalog.json_build_array(t.typelem)
    when t.typtype = 'c' then (select pg_catalog.json_agg(a.atttypid) from pg_catalog.pg_attribute a
      where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped) end
from pg_catalog.pg_type t join pg_catalog.pg_namespace n on n.oid = t.typnamespace
  join pg_catalog.pg_proc p on p.oid = t.typinput join pg_catalog.pg_language l on l.oid = p.prolang
where t.oid >= 16384"""

QUESTIONS = (_PATH, _EMPTY_PATH, _RELATIONS, _FUNCTIONS, _OPERATORS, _TYPES)
"""Run one after the other on one connection, which must not be used for anything else afterwards."""


def target_schema(answers: Sequence[Sequence[Row]]) -> TargetSchema:
    """Build the schema from the rows of each of QUESTIONS. Raises ProtocolViolation if they do not fit."""
    try:
        path, _, relations, functions, operators, types = answers
        found_relations = [_relation(row) for row in relations]
        named = [*_functions(functions), *_functions(operators)]
        return TargetSchema(
            {(relation.schema, relation.name): relation for relation in found_relations},
            {(function.schema, function.name): function for function in named},
            tuple(name for (name,) in path if name),
            types=_types(types),
            operators={(text(schema), text(name)): harmless == "t" for schema, name, harmless, _ in operators},
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise ProtocolViolation(f"the target's response to a catalogue query is not valid: {error}") from None


def _relation(row: Row) -> Relation:
    number, schema, name, definition, columns, parents, generated, comments, types = row
    comment_texts: Mapping[str, str] = json.loads(comments or "{}")
    return Relation(
        text(schema),
        text(name),
        tuple(json.loads(columns or "[]")),
        int(text(number)),
        definition or "",
        tags(comment_texts.get("", "")),
        {column: tags(comment) for column, comment in comment_texts.items() if column},
        tuple((place, parent) for place, parent in json.loads(parents or "[]")),
        json.loads(generated or "{}"),
        tuple(map(int, json.loads(types or "[]"))),
    )


def _functions(rows: Sequence[Row]) -> Iterator[Function]:
    for schema, name, harmless, pure in rows:
        yield Function(text(schema), text(name), harmless == "t", pure == "t")


@dataclass(frozen=True, slots=True)
class _Type:
    harmless: bool
    parts: tuple[int, ...]


def _types(rows: Sequence[Row]) -> dict[tuple[str, str], bool]:
    types: dict[int, _Type] = {}
    for number, _, _, harmless, parts in rows:
        types[int(text(number))] = _Type(harmless == "t", tuple(map(int, json.loads(parts or "[]"))))
    # A type with a harmful part is harmful: repeat until nothing changes.
    harmful = {number for number, kind in types.items() if not kind.harmless}
    while fresh := {n for n, kind in types.items() if n not in harmful and not harmful.isdisjoint(kind.parts)}:
        harmful |= fresh
    return {(text(schema), text(name)): int(text(number)) not in harmful for number, schema, name, _, _ in rows}
