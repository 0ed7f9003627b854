"""The queries before a row count on a PostgreSQL target, which make sure that counting runs no custom code (decision
0046).

All run in one read-only transaction. Its search_path contains only pg_catalog, so names without a schema are the
server's own, in these statements and in the counted query. PostgreSQL 12 and later.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from postern.domain.rules.row_count import CountPlan, Named, Uncountable
from postern.protocols.gateway_queries import Row
from postern.protocols.postgres.queries.postgres_query import PostgresQuery

BEGIN: Final = "begin isolation level read committed read only"
ROLLBACK: Final = "rollback"

# With their schema: these come first, while the search_path is still the login's.
_SETTINGS: Final = {
    "search_path": "pg_catalog, pg_temp",  # otherwise pg_temp would be searched first
    "row_security": "off",  # a policy's code never runs: where one would apply, reading fails
    "constraint_exclusion": "off",  # the planner evaluates no CHECK of a table
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
}

# Settings that a session may have changed. The target reports them, and they are copied for the count.
_FOLLOWED: Final = ("DateStyle", "IntervalStyle", "TimeZone")
_WHO: Final = ("is_superuser", "session_authorization")

_TABLES: Final = """
select w.place - 1, c.oid, n.nspname, c.relkind, c.relpersistence
from json_array_elements($1::json) with ordinality w(name, place)
  join pg_class c on c.relname::text = w.name->>1 and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
  join pg_namespace n on n.oid = c.relnamespace
where case when w.name->>0 = '' then n.nspname::text <> 'pg_toast'
  else n.nspname::text = w.name->>0 end
order by 1, 3"""

# $1 are the tables' OIDs, $2 what the query uses. Each row says whether it forbids the count, and why. Built-in objects
# have OIDs below 16384. A family: the tables whose rows are also rows of those. The text form of floating numbers and
# bytes depends on the session's settings; types 600 to 718 consist of such numbers.
_FACTS: Final = """
with recursive family(oid) as (
  select unnest($1::oid[])
  union select i.inhrelid from pg_inherits i join family f on f.oid = i.inhparent
), kinds(oid) as (
  select a.atttypid from pg_attribute a join family f on f.oid = a.attrelid
  where a.attnum > 0 and not a.attisdropped and ($2::json->>'columns' is null
    or a.attname::text in (select json_array_elements_text($2::json->'columns')))
  union select case when t.typbasetype <> 0 then t.typbasetype else t.typelem end
  from pg_type t join kinds k on k.oid = t.oid where t.typbasetype <> 0 or t.typcategory = 'A'
), used(kind, name) as (
  select u.key, json_array_elements_text(u.value) from json_each($2::json->'names') u
), parts(classid, oid) as (
  select 'pg_class'::regclass::oid, f.oid from family f
  union all select 'pg_class'::regclass, i.indexrelid from pg_index i join family f on f.oid = i.indrelid
  union all select 'pg_constraint'::regclass, c.oid from pg_constraint c join family f on f.oid = c.conrelid
  union all select 'pg_statistic_ext'::regclass, s.oid from pg_statistic_ext s join family f on f.oid = s.stxrelid
  union all select 'pg_attrdef'::regclass, d.oid from pg_attrdef d join family f on f.oid = d.adrelid
    join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum where a.attgenerated <> ''
), unsteady(oid) as (
  select t.oid from pg_type t where t.oid in (17, 700, 701, 600, 601, 602, 603, 604, 628, 718)
), called(oid) as (
  select d.refobjid from pg_depend d join parts p on p.classid = d.classid and p.oid = d.objid
  where d.refclassid = 'pg_proc'::regclass and d.refobjid >= 16384
  union select o.oprcode from pg_depend d join parts p on p.classid = d.classid and p.oid = d.objid
    join pg_operator o on o.oid = d.refobjid where d.refclassid = 'pg_operator'::regclass and o.oid >= 16384
  union select m.amproc from pg_depend d join parts p on p.classid = d.classid and p.oid = d.objid
    join pg_opclass c on c.oid = d.refobjid join pg_amproc m on m.amprocfamily = c.opcfamily
  where d.refclassid = 'pg_opclass'::regclass and c.oid >= 16384
  union select o.oprcode from pg_depend d join parts p on p.classid = d.classid and p.oid = d.objid
    join pg_opclass c on c.oid = d.refobjid join pg_amop m on m.amopfamily = c.opcfamily
    join pg_operator o on o.oid = m.amopopr where d.refclassid = 'pg_opclass'::regclass and c.oid >= 16384
)
select true, format('%s is stored on another server', c.oid::regclass)
from pg_class c join family f on f.oid = c.oid where c.relkind = 'f'
union all select true, format('rules rewrite statements on %s', c.oid::regclass)
from pg_class c where c.oid = any($1::oid[]) and c.relhasrules
union all select true, format('row security decides which rows of %s this user sees', c.oid::regclass)
from pg_class c where c.oid = any($1::oid[]) and row_security_active(c.oid)
union all select true, format('row security can hide rows of %s, so that other rows match', c.oid::regclass)
from pg_class c where c.relrowsecurity and c.oid::text in (select json_array_elements_text($2::json->'others'))
  and current_setting('is_superuser') <> 'on'
union all select true, format('a column has the type %s, whose values depend on the session''s settings',
  t.oid::regtype)
from pg_type t join kinds k on k.oid = t.oid where t.typname::text in (
  'money', 'regclass', 'regcollation', 'regconfig', 'regdatabase', 'regdictionary', 'regnamespace', 'regoper',
  'regoperator', 'regproc', 'regprocedure', 'regrole', 'regtype')
union all select true, 'an open transaction, possibly its own, has created or changed tables'
where ($2::json->>'open')::bool and exists (
  select from pg_locks l join pg_database d on d.oid = l.database
  where d.datname = current_database() and l.locktype = 'relation' and l.mode = 'AccessExclusiveLock' and l.granted)
union all select true, 'it converts floating-point numbers or bytes to text, which depends on settings'
where ($2::json->>'writes')::bool and (exists (select from kinds k join unsteady y on y.oid = k.oid)
  or exists (select from used u join pg_type t on t.typname::text = u.name join unsteady y on y.oid = t.oid
    where u.kind = 'types')
  or exists (select from used u where u.kind = 'operators' and u.name in ('^', '|/', '||/', '<->', '@-@'))
  or exists (select from used u join pg_proc p on p.proname::text = u.name join unsteady y on y.oid = p.prorettype
    where u.kind = 'functions' and p.oid < 16384 and not 17 = any(p.proargtypes)))
union all select true, format('a user has created a default operator class for %s',
  o.opcintype::regtype)
from pg_opclass o join pg_am m on m.oid = o.opcmethod
where o.oid >= 16384 and o.opcdefault and m.amname in ('btree', 'hash')
  and (o.opcintype < 16384 or exists (select from kinds k where k.oid = o.opcintype))
union all select true, format('it can call %s', p.oid::regprocedure)
from pg_proc p join used u on u.kind = 'fields' and u.name = p.proname::text
where p.pronargs > 0 and p.pronargs - p.pronargdefaults < 2
union all select true, format('a user has created a collation %I', c.collname)
from pg_collation c join used u on u.kind = 'collations' and u.name = c.collname::text
where c.oid >= 16384
union all select true, format('a bind value has the type %s', t.oid::regtype)
from pg_type t where t.oid::text in (select json_array_elements_text($2::json->'given')) and (
  (t.oid >= 16384 and t.typtype <> 'e') or t.typname::text in ('money', 'xml') or t.typname::text ~ '^_?reg')
union all select true, format('a column has the type %s, which is not built in', t.oid::regtype)
from pg_type t join kinds k on k.oid = t.oid
where t.oid >= 16384 and t.typtype not in ('e', 'd') and not (t.typtype = 'b' and t.typcategory = 'A')
union all select true, format('a column has the domain %s, whose condition can run', c.contypid::regtype)
from pg_constraint c join kinds k on k.oid = c.contypid where c.contype = 'c'
union all select true, format('a user has created a cast from %s to %s', y.castsource::regtype, y.casttarget::regtype)
from pg_cast y where y.oid >= 16384 and (y.castsource < 16384 and (y.casttarget < 16384 or y.castcontext = 'i')
  or (y.castsource >= 16384 and exists (select from kinds k where k.oid = y.castsource))
  or (y.casttarget >= 16384 and exists (select from kinds k where k.oid = y.casttarget)))
union all select true, format('a user has created an operator %s', o.oid::regoperator)
from pg_operator o join used u on u.kind = 'operators' and u.name = o.oprname::text
where o.oid >= 16384
  and (o.oprleft < 16384 or exists (select from kinds k where k.oid = o.oprleft))
  and (o.oprright < 16384 or exists (select from kinds k where k.oid = o.oprright))
union all select true, format('a user has created a function %s', p.oid::regprocedure)
from pg_proc p join used u on u.kind = 'functions' and u.name = p.proname::text
where p.oid >= 16384 and (p.pronargdefaults > 0 or p.provariadic <> 0 or not exists (
  select from unnest(p.proargtypes) a where a >= 16384 and not exists (select from kinds k where k.oid = a)))
union all select true, format('a user has created a type %s', t.oid::regtype)
from pg_type t join used u on u.kind = 'types' and u.name = t.typname::text where t.oid >= 16384
union all select true, format('an index, a condition or a column of its tables calls %s', p.oid::regprocedure)
from pg_proc p join called c on c.oid = p.oid join pg_language l on l.oid = p.prolang
where p.oid >= 16384 and not (l.lanname in ('c', 'internal') and p.provolatile <> 'v')"""

# $1 is the table that is written to, $2 the bits of the events of pg_trigger.tgtype, $3 the action of a DELETE or an
# UPDATE in pg_constraint, $4 the columns that are set.
_NOTES: Final = """
with recursive family(oid) as (
  select $1::oid union select i.inhrelid from pg_inherits i join family f on f.oid = i.inhparent
)
select distinct false, format('the trigger %I of %s can change that', t.tgname, t.tgrelid::regclass)
from pg_trigger t join family f on f.oid = t.tgrelid
where not t.tgisinternal and t.tgenabled <> 'D' and t.tgtype & $2::int <> 0 and t.tgtype & 2 <> 0
union select false, format('rows of %s refer to these rows, and are changed or deleted with them', c.conrelid::regclass)
from pg_constraint c join family f on f.oid = c.confrelid
where c.contype = 'f' and c.conparentid = 0
  and ($3::text like '%d%' and c.confdeltype in ('c', 'n', 'd')
  or $3::text like '%u%' and c.confupdtype in ('c', 'n', 'd') and exists (
    select from pg_attribute a where a.attrelid = c.confrelid and a.attnum = any(c.confkey)
      and a.attname::text in (select json_array_elements_text($4::json))))
union select false, format('row security of %s can hide some of them if the session has another role', c.oid::regclass)
from pg_class c where c.oid = $1::oid and c.relrowsecurity
order by 2"""

_EVENTS: Final = {"UPDATE": ("16", "u"), "DELETE": ("8", "d"), "MERGE": ("28", "du")}
_KINDS: Final = {"v": "a view", "f": "stored on another server", "S": "a sequence"}
MOST_NOTES: Final = 5

# By SQLSTATE, because the error's text may contain values and must not be shown.
_ERRORS: Final = {
    "57014": "the query took too long",
    "55P03": "another session has locked its table",
    "42501": "the connection's user is not allowed to read its tables",
    "42P01": "its table does not exist",
    "42703": "it names a column that does not exist",
    "25006": "it would write to the database",
}


_NOTHING: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class PostgresCountPlan(CountPlan):
    """How one part of a statement is counted.

    `tables` are all that it reads, `target` one of them; `others` are those that decide which rows of it are meant.
    `functions`, `operators`, `types` and `collations` are the names that its query uses, all of which mean the server's
    own; `fields` those that would call functions if they were no columns; `columns` those of columns, None where it may
    read any. `writes`: it may make texts of values. `sets` are the columns that it would change. `values` are the
    numbers of the statement's bind values in the order in which the query takes them, from 1. `query` makes the query,
    given the schema of each of `tables`: one row with one number, `MOST_ROWS` + 1 for more. `check` raises Uncountable
    for a bind value that may mean something else in the session.
    """

    tables: tuple[Named, ...] = ()
    others: tuple[Named, ...] = ()
    columns: frozenset[str] | None = None
    fields: frozenset[str] = _NOTHING
    functions: frozenset[str] = _NOTHING
    operators: frozenset[str] = _NOTHING
    types: frozenset[str] = _NOTHING
    collations: frozenset[str] = _NOTHING
    writes: bool = False
    sets: frozenset[str] = _NOTHING
    values: tuple[int, ...] = ()
    query: Callable[[Mapping[Named, str]], str] = field(default=lambda _: "", compare=False)
    check: Callable[[str], None] = field(default=lambda _: None, compare=False)


def settings(statement_timeout: float, lock_timeout: float, session_settings: Mapping[str, str]) -> PostgresQuery:
    """Return the query that sets the transaction's settings, with one row. Times are in seconds."""
    limits = {
        "statement_timeout": f"{statement_timeout * 1000:.0f}",
        "lock_timeout": f"{lock_timeout * 1000:.0f}",
        "idle_in_transaction_session_timeout": f"{2 * statement_timeout * 1000:.0f}",
    }
    chosen = {**_SETTINGS, **limits}
    calls = [f"pg_catalog.set_config('{name}', '{value}', true)" for name, value in chosen.items()]
    values = []
    for name in _FOLLOWED:
        if name in session_settings:
            values.append(session_settings[name])
            calls.append(f"pg_catalog.set_config('{name}', ${len(values)}, true)")
    return PostgresQuery(f"select {', '.join(calls)}", values)


def same_user(session_settings: Mapping[str, str], login_settings: Mapping[str, str]) -> None:
    """Check the user. Raises Uncountable if the session has switched to another user than the login's."""
    if any(session_settings.get(name, login_settings.get(name)) != login_settings.get(name) for name in _WHO):
        raise Uncountable("the session has switched to another user, so other rows can be visible")


def tables(plan: PostgresCountPlan) -> PostgresQuery:
    """Return the query for the tables that the plan's names may mean. Its rows are read by `found_tables`."""
    return PostgresQuery(_TABLES, [json.dumps(plan.tables)])


def found_tables(plan: PostgresCountPlan, rows: Sequence[Row]) -> dict[Named, tuple[int, str]]:
    """Return the OID and schema of each table, from the rows of `tables`. Raises Uncountable."""
    tables_by_name: dict[Named, tuple[int, str]] = {}
    for place, number, schema, kind, lasts in rows:
        name = plan.tables[int(place or 0)]
        if name in tables_by_name:
            raise Uncountable(f"there are several tables {name[1]}, and the search_path decides which one is used")
        if kind in _KINDS:
            raise Uncountable(f"{name[1]} is {_KINDS[kind]}")
        if lasts == "t":
            raise Uncountable(f"{name[1]} is a temporary table of a session")
        tables_by_name[name] = (int(number or 0), schema or "")
    for name in plan.tables:
        if name not in tables_by_name:
            raise Uncountable(f"there is no table {'.'.join(filter(None, name))}")
    return tables_by_name


def lock(tables_by_name: Mapping[Named, tuple[int, str]], rows: Sequence[Row]) -> PostgresQuery | None:
    """Lock the tables, so that they cannot be replaced. A materialized view cannot be locked."""
    unlockable = {int(number or 0) for _, number, _, kind, _ in rows if kind == "m"}
    names = [
        f"{_quote_identifier(schema)}.{_quote_identifier(name[1])}"
        for name, (number, schema) in tables_by_name.items()
        if number not in unlockable
    ]
    return PostgresQuery(f"lock table {', '.join(names)} in access share mode") if names else None


def facts(
    plan: PostgresCountPlan,
    tables_by_name: Mapping[Named, tuple[int, str]],
    value_types: Sequence[int],
    *,
    in_transaction: bool,
) -> PostgresQuery:
    """Return the query for facts that forbid the count. `value_types` are the types of bind values; `in_transaction`:
    the session has an open transaction."""
    numbers = [number for number, _ in tables_by_name.values()]
    used = {
        "others": [str(tables_by_name[name][0]) for name in plan.others],
        "writes": plan.writes,
        "open": in_transaction,
        "given": [str(oid) for oid in value_types],
        "columns": None if plan.columns is None else sorted(plan.columns),
        "names": {
            "collations": sorted(plan.collations),
            "fields": sorted(plan.fields),
            "functions": sorted(plan.functions),
            "operators": sorted(plan.operators),
            "types": sorted(plan.types),
        },
    }
    return PostgresQuery(_FACTS, [f"{{{','.join(map(str, numbers))}}}", json.dumps(used)])


def notes(plan: PostgresCountPlan, target: int) -> PostgresQuery:
    bits, letters = _EVENTS[plan.action]
    return PostgresQuery(_NOTES, [str(target), bits, letters, json.dumps(sorted(plan.sets))])


def calm(rows: Sequence[Row]) -> None:
    """Check the rows of `facts`. Raises Uncountable with the first reason."""
    reasons = sorted(text or "" for _, text in rows)
    if reasons:
        raise Uncountable(reasons[0])


def read_notes(rows: Sequence[Row]) -> tuple[str, ...]:
    return tuple(text or "" for _, text in rows[:MOST_NOTES])


def why(code: str) -> str:
    """Return the meaning of a target's error, by its SQLSTATE."""
    return _ERRORS.get(code, f"the target rejected the query (SQLSTATE {code})")


def _quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
