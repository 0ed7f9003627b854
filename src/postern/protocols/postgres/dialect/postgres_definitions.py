"""Effects of statements that define objects: tables, functions, roles, privileges, and the server's own settings.

The code in a definition (defaults, checks, views, rules, functions in SQL) counts as if it ran at once, because no rule
sees it when it runs later.
"""

from __future__ import annotations

from typing import Final

from postern.domain.rules.statement import EVERYTHING, Effect, ObjectKind
from postern.inspection.sql.postgres.postgres_tree import Message, names, node, type_parts
from postern.protocols.postgres.dialect.postgres_walk import Handler, Scope, Walk

_DDL, _GRANT, _ADMIN = Effect.DDL, Effect.GRANT, Effect.ADMIN
_OF_TABLES: Final = frozenset(
    f"OBJECT_{kind}"
    for kind in ("TABLE", "VIEW", "MATVIEW", "FOREIGN_TABLE", "SEQUENCE", "COLUMN", "TABCONSTRAINT", "TRIGGER", "RULE",
                 "POLICY")
)  # fmt: skip
_PARTS_OF_TABLES: Final = frozenset(
    f"OBJECT_{kind}" for kind in ("COLUMN", "TABCONSTRAINT", "TRIGGER", "RULE", "POLICY")
)
_GRANTS: Final = frozenset({"OBJECT_POLICY", "OBJECT_ROLE", "OBJECT_USER_MAPPING", "OBJECT_DEFACL"})
_ADMINS: Final = frozenset(
    f"OBJECT_{kind}"
    for kind in ("PUBLICATION", "SUBSCRIPTION", "FDW", "FOREIGN_SERVER", "TABLESPACE", "LANGUAGE", "EVENT_TRIGGER",
                 "EXTENSION", "ACCESS_METHOD", "PARAMETER_ACL")
)  # fmt: skip
# Fields of definitions with the name of the defined object, and fields with the name of a schema.
_NAMING: Final = frozenset(
    {"typeName", "domainname", "defnames", "conversion_name", "opclassname", "opfamilyname", "collname", "dictname",
     "cfgname"}
)  # fmt: skip
_NAMING_SCHEMAS: Final = frozenset({"newschema", "local_schema"})
# Statements about all objects, unless one of the fields names some.
_OF_ALL: Final = frozenset(
    {"AlterTableMoveAllStmt", "ClusterStmt", "DropOwnedStmt", "DropdbStmt", "ReassignOwnedStmt", "VacuumStmt"}
)
_NARROWING: Final = frozenset({"relation", "rels"})
_GRANTING_COMMANDS: Final = frozenset(
    {"AT_ChangeOwner", "AT_EnableRowSecurity", "AT_DisableRowSecurity", "AT_ForceRowSecurity", "AT_NoForceRowSecurity"}
)


def _plainly(kind: str, *effects: Effect) -> Handler:
    def handle(walk: Walk, message: Message, scope: Scope) -> None:
        walk.found.effects.update(effects)
        for field in _NAMING & message.keys():
            _in_schema(walk, names(message[field]) if isinstance(message[field], list) else [])
        for field in _NAMING_SCHEMAS & message.keys():
            walk.found.touches(ObjectKind.SCHEMA, [message[field]])
        if kind in _OF_ALL and not message.keys() & _NARROWING:
            walk.found.objects.add(EVERYTHING)
        walk.inside(kind, message, None)

    return handle


def _in_schema(walk: Walk, parts: list[str]) -> None:
    """Record an object that is neither a table nor a function by its schema."""
    if len(parts) > 1:
        walk.found.touches(ObjectKind.TABLE, parts)


def _about(kind: str, field: str, *effects: Effect) -> Handler:
    """Return the handler for statements about an object in `object` or `objects`, whose kind is in `field`."""

    def handle(walk: Walk, message: Message, scope: Scope) -> None:
        walk.found.effects.update(effects)
        sort = message.get(field, "")
        if sort in _GRANTS:
            walk.found.effects.add(_GRANT)
        if sort in _ADMINS:
            walk.found.effects.add(_ADMIN)
        if message.get("targtype") == "ACL_TARGET_ALL_IN_SCHEMA" or (kind == "RenameStmt" and sort == "OBJECT_SCHEMA"):
            sort = "OBJECT_SCHEMA"
        if sort == "OBJECT_SCHEMA" and "subname" in message:
            walk.found.touches(ObjectKind.SCHEMA, [message["subname"]])
        for schema in _NAMING_SCHEMAS & message.keys():
            walk.found.touches(ObjectKind.SCHEMA, [message[schema]])
        named = message.get("objects", [message["object"]] if "object" in message else [])
        for item in named:
            _name(walk, sort, item)
        walk.inside(kind, message, None, leave=("object", "objects"))

    return handle


def _name(walk: Walk, sort: str, value: Message) -> None:
    kind, content = node(value)
    parts = names(content.get("items")) if kind == "List" else names([value])
    if kind == "TypeName":
        parts = names(content.get("names"))
    if kind in ("RangeVar", "ObjectWithArgs"):
        walk.later(kind, content, None)
    elif sort in _OF_TABLES:
        walk.names_relation(parts[:-1] if sort in _PARTS_OF_TABLES and len(parts) > 1 else parts)
    elif sort == "OBJECT_SCHEMA":
        walk.found.touches(ObjectKind.SCHEMA, parts[-1:])
    else:
        _in_schema(walk, parts)


def _object_with_args(walk: Walk, message: Message, scope: Scope) -> None:
    walk.found.touches(ObjectKind.FUNCTION, names(message.get("objname")))


def _schema(walk: Walk, message: Message, scope: Scope) -> None:
    walk.found.effects.add(_DDL)
    walk.found.touches(ObjectKind.SCHEMA, [message.get("schemaname", "")])
    walk.inside("CreateSchemaStmt", message, None)


def _create_table_as(walk: Walk, message: Message, scope: Scope) -> None:
    walk.found.effects |= {_DDL, Effect.WRITE}
    walk.inside("CreateTableAsStmt", message, None)


def _alter_table_command(walk: Walk, message: Message, scope: Scope) -> None:
    if message.get("subtype") in _GRANTING_COMMANDS:
        walk.found.effects.add(_GRANT)
    if message.get("subtype") == "AT_AlterColumnType":
        kind, column = node(message.get("def"))
        if kind == "ColumnDef":  # every value of the column is cast
            walk.casts(type_parts(column))
    walk.inside("AlterTableCmd", message, None)


def _function(walk: Walk, message: Message, scope: Scope) -> None:
    walk.found.effects.add(_DDL)
    walk.found.touches(ObjectKind.FUNCTION, names(message.get("funcname")))
    options = {
        element["DefElem"].get("defname"): element["DefElem"].get("arg") for element in message.get("options", ())
    }
    _, language = node(options.get("language"))
    name = language.get("sval", "sql" if "sql_body" in message else "").lower()
    _, body = node(options.get("as"))
    texts = names(body.get("items"))
    if name in ("c", "internal"):
        walk.found.effects.add(_ADMIN)
    if name != "sql":
        walk.found.unknown("it defines code in a language other than SQL")
    for text in texts if name == "sql" else ():
        walk.found.join(walk.code(text))
    walk.inside("CreateFunctionStmt", message, None, leave=("options", "returnType"))


def _alter_function(walk: Walk, message: Message, scope: Scope) -> None:
    """Handle ALTER FUNCTION, which can declare the function stable, run it as its owner, or change its search_path."""
    walk.found.effects |= {_DDL, _GRANT}
    walk.later("ObjectWithArgs", message.get("func", {}), None)


def _trigger(kind: str, *effects: Effect) -> Handler:
    def handle(walk: Walk, message: Message, scope: Scope) -> None:
        walk.found.effects.update(effects)
        walk.calls(names(message.get("funcname")), {})
        walk.inside(kind, message, None, leave=("funcname",))

    return handle


def _for_all_to_come(*effects: Effect) -> Handler:
    """Return the handler for a setting of a role, a database or the server."""

    def handle(walk: Walk, message: Message, scope: Scope) -> None:
        change = walk.apart({"VariableSetStmt": message["setstmt"]})
        change.effects.discard(Effect.SESSION)
        walk.found.join(change)
        walk.found.effects.update(effects)

    return handle


def _reindex(walk: Walk, message: Message, scope: Scope) -> None:
    walk.found.effects.add(_DDL)
    if message.get("kind") == "REINDEX_OBJECT_SCHEMA":
        walk.found.touches(ObjectKind.SCHEMA, [message.get("name", "")])
    elif not message.get("relation"):
        walk.found.objects.add(EVERYTHING)
    walk.inside("ReindexStmt", message, None)


def _default_privileges(walk: Walk, message: Message, scope: Scope) -> None:
    walk.found.effects.add(_GRANT)
    _schemas_of_options(walk, message, "schemas", otherwise=True)
    walk.inside("AlterDefaultPrivilegesStmt", message, None)


def _extension(kind: str) -> Handler:
    def handle(walk: Walk, message: Message, scope: Scope) -> None:
        walk.found.effects |= {_DDL, _ADMIN}
        _schemas_of_options(walk, message, "schema", otherwise=False)
        walk.inside(kind, message, None)

    return handle


def _schemas_of_options(walk: Walk, message: Message, option: str, *, otherwise: bool) -> None:
    """Record the schemas in an option. `otherwise`: without the option, every schema is affected."""
    named: list[str] = []
    for element in message.get("options", ()):
        if element["DefElem"].get("defname") == option:
            kind, content = node(element["DefElem"].get("arg"))
            named += names(content.get("items")) if kind == "List" else [content.get("sval", "")]
    for name in named:
        walk.found.touches(ObjectKind.SCHEMA, [name])
    if otherwise and not named:
        walk.found.objects.add(EVERYTHING)


def _visit_publication_object(walk: Walk, message: Message, scope: Scope) -> None:
    sort = message.get("pubobjtype", "")
    if sort == "PUBLICATIONOBJ_TABLES_IN_SCHEMA":
        walk.found.touches(ObjectKind.SCHEMA, [message.get("name", "")])
    elif sort == "PUBLICATIONOBJ_TABLES_IN_CUR_SCHEMA":
        walk.found.objects.add(EVERYTHING)
    walk.inside("PublicationObjSpec", message, None)


def _publication(kind: str) -> Handler:
    def handle(walk: Walk, message: Message, scope: Scope) -> None:
        walk.found.effects |= {_DDL, _ADMIN}
        if message.get("for_all_tables"):
            walk.found.objects.add(EVERYTHING)
        walk.inside(kind, message, None)

    return handle


def _sequence(kind: str) -> Handler:
    def handle(walk: Walk, message: Message, scope: Scope) -> None:
        walk.found.effects.add(_DDL)
        for element in message.get("options", ()):
            if element["DefElem"].get("defname") == "owned_by":
                _, owner = node(element["DefElem"].get("arg"))
                table = names(owner.get("items"))[:-1]
                if table:  # not `none`
                    walk.names_relation(table)
        walk.inside(kind, message, None)

    return handle


def _nothing(walk: Walk, message: Message, scope: Scope) -> None:
    """Handle a name, a role or a number: it has no effect."""


_BY_EFFECTS: Final[dict[tuple[Effect, ...], str]] = {
    (_DDL,): """AlterCollation AlterDomain AlterEnum AlterExtensionContents AlterObjectDepends AlterOpFamily
        AlterOperator AlterStats AlterTSConfiguration AlterTSDictionary AlterTable AlterType Cluster
        CompositeType Create CreateConversion CreateDomain CreateEnum CreateForeignTable CreateOpClass CreateOpFamily
        CreateRange CreateStats Define Index ReplicaIdentity Rule Vacuum View CreateCast
        CreateTransform Createdb Dropdb AlterDatabase AlterDatabaseRefreshColl AlterTableMoveAll""",
    (_GRANT,): """AlterPolicy AlterRole AlterUserMapping CreatePolicy CreateRole
        CreateUserMapping DropOwned DropRole DropUserMapping GrantRole ReassignOwned""",
    (_DDL, _ADMIN): """AlterFdw AlterForeignServer AlterSubscription
        AlterTableSpaceOptions CreateAm CreateFdw CreateForeignServer CreatePLang CreateSubscription CreateTableSpace
        DropSubscription DropTableSpace ImportForeignSchema AlterEventTrig""",
}
_NAMES: Final = "AccessPriv RoleSpec TriggerTransition"
_HOLDERS: Final = """ATAlterConstraint ColumnDef Constraint CreateOpClassItem FunctionParameter IntoClause
    PartitionBoundSpec PartitionCmd PartitionElem PartitionRangeDatum PartitionSpec PublicationTable
    ReturnStmt StatsElem TableLikeClause VacuumRelation"""

DEFINITIONS: Final[dict[str, Handler]] = {
    **{
        f"{kind}Stmt": _plainly(f"{kind}Stmt", *effects)
        for effects, kinds in _BY_EFFECTS.items()
        for kind in kinds.split()
    },
    **dict.fromkeys(_NAMES.split(), _nothing),
    **{kind: _plainly(kind) for kind in _HOLDERS.split()},
    "AlterTableCmd": _alter_table_command,
    "AlterDefaultPrivilegesStmt": _default_privileges,
    "AlterExtensionStmt": _extension("AlterExtensionStmt"),
    "AlterPublicationStmt": _publication("AlterPublicationStmt"),
    "AlterSeqStmt": _sequence("AlterSeqStmt"),
    "CreateExtensionStmt": _extension("CreateExtensionStmt"),
    "CreatePublicationStmt": _publication("CreatePublicationStmt"),
    "CreateSeqStmt": _sequence("CreateSeqStmt"),
    "PublicationObjSpec": _visit_publication_object,
    "ReindexStmt": _reindex,
    "AlterDatabaseSetStmt": _for_all_to_come(_DDL, _ADMIN),
    "AlterFunctionStmt": _alter_function,
    "AlterObjectSchemaStmt": _about("AlterObjectSchemaStmt", "objectType", _DDL),
    "AlterOwnerStmt": _about("AlterOwnerStmt", "objectType", _DDL, _GRANT),
    "AlterRoleSetStmt": _for_all_to_come(_GRANT),
    "AlterSystemStmt": _for_all_to_come(_ADMIN),
    "CommentStmt": _about("CommentStmt", "objtype", _DDL),
    "CreateEventTrigStmt": _trigger("CreateEventTrigStmt", _DDL, _ADMIN),
    "CreateFunctionStmt": _function,
    "CreateSchemaStmt": _schema,
    "CreateTableAsStmt": _create_table_as,
    "CreateTrigStmt": _trigger("CreateTrigStmt", _DDL),
    "DropStmt": _about("DropStmt", "removeType", _DDL),
    "GrantStmt": _about("GrantStmt", "objtype", _GRANT),
    "ObjectWithArgs": _object_with_args,
    "RenameStmt": _about("RenameStmt", "renameType", _DDL),
    "SecLabelStmt": _about("SecLabelStmt", "objtype", _GRANT),
}
