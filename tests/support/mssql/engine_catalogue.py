"""INFORMATION_SCHEMA and `sys`: tables that are filled from SQLite's own catalogue when a query names them."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.support.mssql import sqlserver_types as t
from tests.support.mssql.engine_tables import declared_column
from tests.support.mssql.sqlserver_types import SqlColumn
from tests.support.mssql.sqlserver_values import SqlValue

Row = tuple[SqlValue, ...]
TYPE_IDS: Final = {
    "image": 34,
    "text": 35,
    "uniqueidentifier": 36,
    "date": 40,
    "time": 41,
    "datetime2": 42,
    "datetimeoffset": 43,
    "tinyint": 48,
    "smallint": 52,
    "int": 56,
    "smalldatetime": 58,
    "real": 59,
    "money": 60,
    "datetime": 61,
    "float": 62,
    "sql_variant": 98,
    "ntext": 99,
    "bit": 104,
    "decimal": 106,
    "numeric": 108,
    "smallmoney": 122,
    "bigint": 127,
    "varbinary": 165,
    "varchar": 167,
    "binary": 173,
    "char": 175,
    "timestamp": 189,
    "nvarchar": 231,
    "nchar": 239,
    "xml": 241,
}


@dataclass(frozen=True)
class SqlObject:
    """A table or view: its database, its schema, and its names with and without that."""

    database: str
    schema: str
    name: str
    stored: str
    is_view: bool
    text: str

    @property
    def id(self) -> int:
        return object_number(f"{self.database}.{self.stored}")


def object_number(name: str) -> int:
    return zlib.crc32(name.lower().encode()) & 0x7FFFFFFF


@dataclass(frozen=True)
class SqlCatalogue:
    """Reads one connection's catalogue. `procedures` returns name and text of each."""

    connection: sqlite3.Connection
    procedures: Callable[[], Sequence[tuple[str, str]]]

    def objects(self, database: str) -> list[SqlObject]:
        """Return tables and views, of temporary ones only the session's own."""
        master = "temp.sqlite_master" if database == "temp" else f'"{database}".sqlite_master'
        wanted = "type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
        rows = self.connection.execute(f"SELECT name, type, sql FROM {master} WHERE {wanted} ORDER BY name")
        found = []
        views, synonyms = self.texts(database, "view"), self.texts(database, "synonym")
        for stored, kind, text in rows.fetchall():
            if not stored.startswith(("sys.", "information_schema.", "@", "procedures/")) and stored not in synonyms:
                schema, _, name = stored.rpartition(".")
                found.append(
                    SqlObject(database, schema or "dbo", name, stored, kind == "view", views.get(stored, text))
                )
        return found

    def columns(self, database: str, stored: str) -> list[SqlColumn]:
        """Return the columns of a table; none if it does not exist."""
        rows = self.connection.execute(f"PRAGMA \"{database}\".table_xinfo('{stored.replace(chr(39), chr(39) * 2)}')")
        return [
            declared_column(name, declared, not_null=bool(not_null), key=bool(key))
            for _, name, declared, not_null, _, key, _ in rows.fetchall()
        ]

    def keys(self, database: str, stored: str) -> list[str]:
        rows = self.connection.execute(f"PRAGMA \"{database}\".table_xinfo('{stored}')").fetchall()
        return [name for _, name, *_, key, _ in sorted(rows, key=lambda row: row[5]) if key]

    def texts(self, database: str, kind: str) -> dict[str, str]:
        """Return what `store_text` keeps, by name."""
        if database == "temp":
            return {}
        rows = self.connection.execute(
            f'SELECT name, text FROM "{database}"."procedures/texts" WHERE kind = ?', (kind,)
        )
        return dict(rows.fetchall())

    def databases(self) -> list[str]:
        names = [name for _, name, _ in self.connection.execute("PRAGMA database_list").fetchall()]
        return [name for name in names if name not in ("main", "temp")]

    def fill(self, view: str, database: str) -> bool:
        """Fill the temporary table of a view such as `sys.tables`. Return False if there is no such view."""
        found = VIEWS.get(view.lower())
        if found is None:
            return False
        columns, rows = found
        folded = {kind: " COLLATE NOCASE" if "char" in kind else "" for _, kind in columns}
        defined = ", ".join(f'"{name}" "{kind}"{folded[kind]}' for name, kind in columns)
        self.connection.execute(f'CREATE TABLE IF NOT EXISTS temp."{view}" ({defined})')
        self.connection.execute(f'DELETE FROM temp."{view}"')
        places = ", ".join("?" for _ in columns)
        self.connection.executemany(
            f'INSERT INTO temp."{view}" VALUES ({places})',
            list(rows(self, "temp" if database == "tempdb" else database)),
        )
        return True


def _every_column(catalogue: SqlCatalogue, database: str) -> Iterator[tuple[SqlObject, int, SqlColumn]]:
    for found in catalogue.objects(database):
        for place, column in enumerate(catalogue.columns(database, found.stored), 1):
            yield found, place, column


def _tables(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    for it in catalogue.objects(database):
        yield database, it.schema, it.name, "VIEW" if it.is_view else "BASE TABLE"


def _columns(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    for it, place, column in _every_column(catalogue, database):
        kind = column.type
        size = kind.size if kind.name in t.SIZED else None
        numeric = kind.name in (*t.INTEGERS, "decimal", "numeric", *t.FLOATS, *t.MONEYS)
        precision = kind.precision or {
            "tinyint": 3,
            "smallint": 5,
            "int": 10,
            "bigint": 19,
            "float": 53,
            "real": 24,
        }.get(kind.name)
        collation = kind.collation.name if kind.is_text else None
        yield (
            *(database, it.schema, it.name, column.name, place, None, "YES" if column.nullable else "NO", kind.name),
            *(size, size, precision if numeric else None, kind.scale if numeric else None),
            *(kind.scale if kind.name in t.TIMES else None, collation, None, None),
        )


def _sys_columns(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    computed = catalogue.texts(database, "computed")
    for it, place, column in _every_column(catalogue, database):
        kind = column.type
        number = TYPE_IDS.get(kind.name, 240)
        size = kind.size if kind.size == t.MAX else kind.size * (2 if kind.is_unicode else 1) or 8
        collation = kind.collation.name if kind.is_text else None
        yield (
            *(it.id, column.name, place, number, number, size, kind.precision, kind.scale, collation),
            *(int(column.nullable), int(column.identity), int(f"{it.stored}/{column.name}" in computed), 0, 0, None, 0),
            None,
        )


def _identities(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    for it, place, column in _every_column(catalogue, database):
        if column.identity:
            yield it.id, column.name, place, 1, "1", "1", None, 0


def _sys_objects(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    for it in catalogue.objects(database):
        number = 1 if it.schema == "dbo" else object_number(it.schema)
        code, name = ("V", "VIEW") if it.is_view else ("U", "USER_TABLE")
        yield it.name, it.id, None, number, 0, code, name, "2026-01-01 00:00:00.000", "2026-01-01 00:00:00.000", 0
    for procedure, _ in catalogue.procedures():
        row = (procedure, object_number(f"{database}.{procedure}"), None, 1, 0, "P", "SQL_STORED_PROCEDURE")
        yield (*row, "2026-01-01 00:00:00.000", "2026-01-01 00:00:00.000", 0)
    for kind, code, described in (("synonym", "SN", "SYNONYM"), ("function", "FN", "SQL_SCALAR_FUNCTION")):
        for name in catalogue.texts(database, kind):
            moments = ("2026-01-01 00:00:00.000", "2026-01-01 00:00:00.000")
            yield name, object_number(f"{database}.{name}"), None, 1, 0, code, described, *moments, 0


def _user_tables(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    external = catalogue.texts(database, "external")
    for it in catalogue.objects(database):
        if not it.is_view:
            row = next(row for row in _sys_objects(catalogue, database) if row[1] == it.id)
            yield (*row, int(it.stored in external), 0, 0)


def _of_tables(catalogue: SqlCatalogue, database: str, kind: str) -> Iterator[tuple[SqlObject, str, str]]:
    """Yield what `store_text` keeps of a table's parts: the table, the name of the part, and the text."""
    tables = {it.stored.lower(): it for it in catalogue.objects(database)}
    for name, text in catalogue.texts(database, kind).items():
        stored, _, part = name.rpartition("/")
        if (table := tables.get(stored.lower())) is not None:
            yield table, part, text


def _policies(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    for _, name, _ in _of_tables(catalogue, database, "policy"):
        yield name, object_number(f"{database}.{name}"), 1, 1


def _predicates(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    for table, name, _ in _of_tables(catalogue, database, "policy"):
        yield object_number(f"{database}.{name}"), 1, table.id, "([dbo].[own]([id]))", 0, "FILTER"


def _checks(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    for table, place, text in _of_tables(catalogue, database, "check"):
        yield f"CK_{table.name}_{place}", object_number(f"{database}.check.{table.name}.{place}"), 1, table.id, text, 0


def _triggers(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    for table, name, text in _of_tables(catalogue, database, "trigger"):
        yield name, object_number(f"{database}.{name}"), table.id, 0, int(text.startswith("INSTEAD"))


def _trigger_events(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    for _, name, text in _of_tables(catalogue, database, "trigger"):
        for event in text.split()[1:]:
            yield object_number(f"{database}.{name}"), ("INSERT", "UPDATE", "DELETE").index(event) + 1, event


_ACTIONS: Final = {"CASCADE": 1, "SET NULL": 2, "SET DEFAULT": 3}


def _foreign_keys(catalogue: SqlCatalogue, database: str) -> Iterator[tuple[Row, Row]]:
    """Yield rows of sys.foreign_keys and sys.foreign_key_columns."""
    tables = {it.stored.lower(): it for it in catalogue.objects(database)}
    for it in list(tables.values()):
        found = catalogue.connection.execute(f'PRAGMA "{database}".foreign_key_list("{it.stored}")').fetchall()
        for number, place, other, column, referenced, on_update, on_delete, *_ in found:
            target = tables[other.lower()]
            key = object_number(f"{database}.key.{it.stored}.{number}")
            row = (
                f"FK_{it.name}_{number}",
                key,
                it.id,
                target.id,
                _ACTIONS.get(on_delete, 0),
                _ACTIONS.get(on_update, 0),
            )
            names = [described.name.lower() for described in catalogue.columns(database, it.stored)]
            others = [described.name.lower() for described in catalogue.columns(database, target.stored)]
            to = (referenced or catalogue.keys(database, target.stored)[place]).lower()
            places = (names.index(column.lower()) + 1, target.id, others.index(to) + 1)
            yield row, (key, place + 1, it.id, *places)


def _of_kind(code: str) -> Callable[[SqlCatalogue, str], Iterator[Row]]:
    def rows(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
        return (row for row in _sys_objects(catalogue, database) if row[5] == code)

    return rows


def _schemas(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    names = {it.schema for it in catalogue.objects(database)} - {"dbo"}
    yield "dbo", 1, 1
    yield "INFORMATION_SCHEMA", 3, 3
    yield "sys", 4, 4
    for name in sorted(names):
        yield name, object_number(name), 1


def _modules(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    for it in catalogue.objects(database):
        if it.is_view:
            yield it.id, it.text
    for name, text in catalogue.procedures():
        yield object_number(f"{database}.{name}"), f"CREATE PROCEDURE {name} {text}"


def _key_columns(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    for it in catalogue.objects(database):
        for place, column in enumerate(catalogue.keys(database, it.stored), 1):
            yield database, it.schema, f"PK_{it.name}", database, it.schema, it.name, column, place


def _constraints(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    for it in catalogue.objects(database):
        if catalogue.keys(database, it.stored):
            yield database, it.schema, f"PK_{it.name}", database, it.schema, it.name, "PRIMARY KEY"


def _views(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    for it in catalogue.objects(database):
        if it.is_view:
            yield database, it.schema, it.name, it.text, "NONE", "NO"


def _database_rows(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    for number, name in enumerate(catalogue.databases(), 1):
        yield name, number, None, "2026-01-01 00:00:00.000", 160, t.SqlType("char").collation.name, 0, "ONLINE"


def _types(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    for name, number in TYPE_IDS.items():
        yield name, number, number, 4, 8, 0, 0, None, 1, 0, 0


def _routines(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    for name, text in catalogue.procedures():
        yield database, "dbo", name, database, "dbo", name, "PROCEDURE", text


def _principals(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    yield "dbo", 1, "S", "SQL_USER", "dbo"


def _properties(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    stored = catalogue.connection.execute(f'SELECT * FROM "{database}"."procedures/properties"').fetchall()
    for kind, description, table, column, name, value in stored:
        for it in catalogue.objects(database):
            if it.name.lower() == table:
                names = [described.name.lower() for described in catalogue.columns(database, it.stored)]
                yield kind, description, it.id, names.index(column) + 1 if column else 0, name, value


def _synonyms(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    for name, base in catalogue.texts(database, "synonym").items():
        row = (name, object_number(f"{database}.{name}"), None, 1, 0, "SN", "SYNONYM")
        yield (*row, "2026-01-01 00:00:00.000", "2026-01-01 00:00:00.000", 0, base)


def _computed(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    texts = catalogue.texts(database, "computed")
    for it, place, column in _every_column(catalogue, database):
        if (text := texts.get(f"{it.stored}/{column.name}")) is not None:
            yield it.id, column.name, place, text, 0, 1, 0


def _empty(catalogue: SqlCatalogue, database: str) -> Iterator[Row]:
    yield from ()


def _described(text: str) -> list[tuple[str, str]]:
    """`name type, name type`; without a type it is nvarchar(128)."""
    parts = (part.split() for part in text.split(","))
    return [(words[0], words[1] if len(words) > 1 else "nvarchar(128)") for words in parts]


_OBJECTS: Final = _described(
    "name,object_id int,principal_id int,schema_id int,parent_object_id int,type char(2),type_desc,"
    "create_date datetime,modify_date datetime,is_ms_shipped bit"
)
_IS: Final = "information_schema."
VIEWS: Final[dict[str, tuple[list[tuple[str, str]], Callable[[SqlCatalogue, str], Iterator[Row]]]]] = {
    _IS + "tables": (_described("TABLE_CATALOG,TABLE_SCHEMA,TABLE_NAME,TABLE_TYPE varchar(10)"), _tables),
    _IS + "columns": (
        _described(
            "TABLE_CATALOG,TABLE_SCHEMA,TABLE_NAME,COLUMN_NAME,ORDINAL_POSITION int,COLUMN_DEFAULT nvarchar(4000),"
            "IS_NULLABLE varchar(3),DATA_TYPE,CHARACTER_MAXIMUM_LENGTH int,CHARACTER_OCTET_LENGTH int,"
            "NUMERIC_PRECISION tinyint,NUMERIC_SCALE int,DATETIME_PRECISION smallint,COLLATION_NAME,DOMAIN_SCHEMA,"
            "DOMAIN_NAME"
        ),
        _columns,
    ),
    _IS + "views": (
        _described(
            "TABLE_CATALOG,TABLE_SCHEMA,TABLE_NAME,VIEW_DEFINITION nvarchar(4000),CHECK_OPTION varchar(7),IS_UPDATABLE"
        ),
        _views,
    ),
    _IS + "schemata": (_described("SCHEMA_NAME,SCHEMA_ID int,PRINCIPAL_ID int"), _schemas),
    _IS + "routines": (
        _described(
            "SPECIFIC_CATALOG,SPECIFIC_SCHEMA,SPECIFIC_NAME,ROUTINE_CATALOG,ROUTINE_SCHEMA,ROUTINE_NAME,"
            "ROUTINE_TYPE,ROUTINE_DEFINITION nvarchar(4000)"
        ),
        _routines,
    ),
    _IS + "key_column_usage": (
        _described(
            "CONSTRAINT_CATALOG,CONSTRAINT_SCHEMA,CONSTRAINT_NAME,TABLE_CATALOG,TABLE_SCHEMA,TABLE_NAME,COLUMN_NAME,"
            "ORDINAL_POSITION int"
        ),
        _key_columns,
    ),
    _IS + "table_constraints": (
        _described(
            "CONSTRAINT_CATALOG,CONSTRAINT_SCHEMA,CONSTRAINT_NAME,TABLE_CATALOG,TABLE_SCHEMA,TABLE_NAME,CONSTRAINT_TYPE"
        ),
        _constraints,
    ),
    "sys.databases": (
        _described(
            "name,database_id int,source_database_id int,create_date datetime,compatibility_level tinyint,"
            "collation_name,state tinyint,state_desc"
        ),
        _database_rows,
    ),
    "sys.schemas": (_described("name,schema_id int,principal_id int"), _schemas),
    **dict.fromkeys(("sys.objects", "sys.all_objects"), (_OBJECTS, _sys_objects)),
    "sys.tables": (
        [*_OBJECTS, *_described("is_external bit,is_filetable bit,is_remote_data_archive_enabled bit")],
        _user_tables,
    ),
    **dict.fromkeys(("sys.views", "sys.all_views"), (_OBJECTS, _of_kind("V"))),
    "sys.procedures": (_OBJECTS, _of_kind("P")),
    "sys.synonyms": ([*_OBJECTS, ("base_object_name", "nvarchar(1035)")], _synonyms),
    **dict.fromkeys(
        ("sys.columns", "sys.all_columns"),
        (
            _described(
                "object_id int,name,column_id int,system_type_id tinyint,user_type_id int,max_length smallint,"
                "precision tinyint,scale tinyint,collation_name,is_nullable bit,is_identity bit,is_computed bit,"
                "is_hidden bit,is_masked bit,masking_function nvarchar(4000),default_object_id int,encryption_type int"
            ),
            _sys_columns,
        ),
    ),
    "sys.computed_columns": (
        _described(
            "object_id int,name,column_id int,definition nvarchar(4000),is_hidden bit,is_computed bit,is_persisted bit"
        ),
        _computed,
    ),
    "sys.identity_columns": (
        _described(
            "object_id int,name,column_id int,is_identity bit,seed_value sql_variant,increment_value sql_variant,"
            "last_value sql_variant,is_not_for_replication bit"
        ),
        _identities,
    ),
    "sys.default_constraints": (
        _described(
            "object_id int,name,schema_id int,parent_object_id int,parent_column_id int,definition nvarchar(4000)"
        ),
        _empty,
    ),
    _IS + "referential_constraints": (
        _described(
            "CONSTRAINT_CATALOG,CONSTRAINT_SCHEMA,CONSTRAINT_NAME,UNIQUE_CONSTRAINT_CATALOG,UNIQUE_CONSTRAINT_SCHEMA,"
            "UNIQUE_CONSTRAINT_NAME,MATCH_OPTION,UPDATE_RULE,DELETE_RULE"
        ),
        _empty,
    ),
    _IS + "sequences": (_described("SEQUENCE_CATALOG,SEQUENCE_SCHEMA,SEQUENCE_NAME"), _empty),
    "sys.types": (
        _described(
            "name,system_type_id tinyint,user_type_id int,schema_id int,max_length smallint,precision tinyint,"
            "scale tinyint,collation_name,is_nullable bit,is_user_defined bit,is_assembly_type bit"
        ),
        _types,
    ),
    **dict.fromkeys(
        ("sys.sql_modules", "sys.all_sql_modules"), (_described("object_id int,definition nvarchar(4000)"), _modules)
    ),
    "sys.security_policies": (_described("name,object_id int,schema_id int,is_enabled bit"), _policies),
    "sys.security_predicates": (
        _described(
            "object_id int,security_predicate_id int,target_object_id int,predicate_definition nvarchar(4000),"
            "predicate_type int,predicate_type_desc"
        ),
        _predicates,
    ),
    "sys.check_constraints": (
        _described("name,object_id int,schema_id int,parent_object_id int,definition nvarchar(4000),is_disabled bit"),
        _checks,
    ),
    "sys.triggers": (
        _described("name,object_id int,parent_id int,is_disabled bit,is_instead_of_trigger bit"),
        _triggers,
    ),
    "sys.trigger_events": (_described("object_id int,type int,type_desc"), _trigger_events),
    "sys.foreign_keys": (
        _described(
            "name,object_id int,parent_object_id int,referenced_object_id int,delete_referential_action tinyint,"
            "update_referential_action tinyint"
        ),
        lambda catalogue, database: (row for row, _ in _foreign_keys(catalogue, database)),
    ),
    "sys.foreign_key_columns": (
        _described(
            "constraint_object_id int,constraint_column_id int,parent_object_id int,parent_column_id int,"
            "referenced_object_id int,referenced_column_id int"
        ),
        lambda catalogue, database: (row for _, row in _foreign_keys(catalogue, database)),
    ),
    "sys.extended_properties": (
        _described("class tinyint,class_desc,major_id int,minor_id int,name,value sql_variant"),
        _properties,
    ),
    "sys.database_principals": (
        _described("name,principal_id int,type char(1),type_desc,default_schema_name"),
        _principals,
    ),
    **dict.fromkeys(
        ("sys.indexes", "sys.key_constraints", "sys.index_columns"),
        (
            _described(
                "object_id int,name,index_id int,type tinyint,type_desc,is_unique bit,is_primary_key bit,column_id int,"
                "key_ordinal tinyint,is_descending_key bit,is_included_column bit,has_filter bit,"
                "is_unique_constraint bit,filter_definition nvarchar(4000),parent_object_id int,unique_index_id int"
            ),
            _empty,
        ),
    ),
    **dict.fromkeys(("sys.dm_exec_sessions", "sys.sysprocesses"), (_described("session_id int,login_name"), _empty)),
}
