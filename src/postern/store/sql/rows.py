"""Conversion between rows and the domain, for all stores."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Label,
    Select,
    String,
    Table,
    Uuid,
    any_,
    cast,
    func,
    literal,
    select,
)
from sqlalchemy import Connection as DatabaseConnection
from sqlalchemy.dialects.postgresql import ARRAY

from postern.domain.identity.principal import Account, Principal, PrincipalKind, PrincipalStatus, RoleGroups
from postern.domain.rules.guardrail import Action, Guardrail, Rule, RuleType, Unknown
from postern.domain.rules.masking import CustomType, MaskingRule, Strategy, Strictness, TypeGroup
from postern.domain.rules.statement import Effect
from postern.domain.runbook import RunbookRef
from postern.domain.secret import Secret
from postern.domain.sessions.session import Session, SessionStatus, Verb
from postern.domain.targets.connection import Connection, ConnectionType, Extra, Toggle
from postern.store.encryption import Encryption
from postern.store.ports.target_ports import SecretUse
from postern.store.prepared import Row
from postern.store.schema.identity_tables import orgs, user_groups, users
from postern.store.schema.session_tables import sessions
from postern.store.schema.target_tables import connection_guardrails, connections

# Unit separator: cannot occur in a group name, whose characters are checked when it is saved.
SEPARATOR = "\x1f"
_CONNECTION_LISTS = ("command", "force_approve_groups", "redact_types", "reviewers", "tags")
_CONNECTION_PLAIN = (
    *("id", "org_id", "name", "subtype", "agent_id", "access_max_duration", "connection_tags"),
    "description",
    *("issue_template_id", "redact_enabled", "resource_name", "managed_by", "created_at", "updated_at", "place"),
    "version",
)
_TOGGLES = (
    *("access_mode_connect", "access_mode_exec", "access_mode_runbooks", "access_schema"),
    *("access_mode_web_terminal", "access_fresh_factor"),
    *(f"access_{extra}" for extra in Extra),
)


def prefix_columns(table: Table, prefix: str) -> list[Label[Any]]:
    """Return all columns, labelled so that several tables fit in one row."""
    return [column.label(f"{prefix}{column.name}") for column in table.c]


def groups_column(prefix: str = "") -> Label[str]:
    """Return the user's groups as one text, so that a user is one row."""
    joined = select(func.aggregate_strings(user_groups.c.name, SEPARATOR)).where(user_groups.c.user_id == users.c.id)
    return joined.correlate(users).scalar_subquery().label(f"{prefix}groups")


def role_groups_columns(prefix: str = "") -> list[Label[Any]]:
    """Return the organisation's names of the groups with a role; `orgs` must be joined."""
    return [orgs.c[name].label(f"{prefix}{name}") for name in ("admin_group", "auditor_group")]


def guardrail_ids_column(prefix: str = "") -> Label[str]:
    """Return the ids of the connection's guardrails as one text."""
    key = cast(connection_guardrails.c.guardrail_id, String)
    joined = select(func.aggregate_strings(key, SEPARATOR)).where(
        connection_guardrails.c.connection_id == connections.c.id
    )
    return joined.correlate(connections).scalar_subquery().label(f"{prefix}guardrail_rules")


def count_of(table: Table, *conditions: ColumnElement[bool]) -> Select[int]:
    """Select the number of rows: the total of a list."""
    return select(func.count().label("total")).select_from(table).where(*conditions)


def page_of(connection: DatabaseConnection, rows: Select[Any], count: Select[int]) -> tuple[list[Row], int]:
    """Return rows and total of a list, in one hand-over to the store's thread.

    Rows are dictionaries: looking a column up in a row of SQLAlchemy costs ten times as much, and a page of 100 does
    that thousands of times.
    """
    result = connection.execute(rows)
    names = list(result.keys())
    decoded_rows: list[Row] = [dict(zip(names, row, strict=True)) for row in result]
    return decoded_rows, connection.execute(count).scalar_one()


def as_uuid(text: str) -> UUID | None:
    """Return the identifier in a text, if it is one."""
    try:
        return UUID(text)
    except ValueError:
        return None


def split(text: str | None) -> list[str]:
    return text.split(SEPARATOR) if text else []


def principal_of(row: Row, prefix: str = "") -> Principal:
    return Principal(
        id=row[f"{prefix}id"],
        org_id=row[f"{prefix}org_id"],
        subject=row[f"{prefix}subject"],
        email=row[f"{prefix}email"],
        name=row[f"{prefix}name"],
        groups=frozenset(split(row[f"{prefix}groups"])),
        kind=PrincipalKind(row[f"{prefix}kind"]),
        status=PrincipalStatus(row[f"{prefix}status"]),
        issuer=row[f"{prefix}issuer"],
        role_groups=RoleGroups(row[f"{prefix}admin_group"], row[f"{prefix}auditor_group"]),
    )


def account_of(row: Row, prefix: str = "") -> Account:
    return Account(
        principal_of(row, prefix),
        password_hash=row[f"{prefix}password_hash"],
        verified=row[f"{prefix}verified"],
        picture=row[f"{prefix}picture"],
        external_id=row[f"{prefix}external_id"],
        user_name=row[f"{prefix}user_name"],
        created_at=row[f"{prefix}created_at"],
        last_login_at=row[f"{prefix}last_login_at"],
        updated_at=row[f"{prefix}updated_at"],
        version=row[f"{prefix}version"],
        managed_by=row[f"{prefix}managed_by"],
    )


class UnopenedSecret(Mapping[str, Secret]):
    """The secret of a connection that was read without it. Every access raises, so that it is never taken for empty,
    and never overwritten."""

    def __getitem__(self, key: str) -> Secret:
        raise LookupError("this connection was read without its secret")

    def __iter__(self) -> Iterator[str]:
        raise LookupError("this connection was read without its secret")

    def __len__(self) -> int:
        raise LookupError("this connection was read without its secret")


_UNOPENED = UnopenedSecret()


async def connection_of(
    row: Row, encryption: Encryption, prefix: str = "", *, secrets: SecretUse = SecretUse.ALL
) -> Connection:
    """Build the connection; `secrets` says whether its secret is decrypted."""
    fields: dict[str, Any] = {name: row[prefix + name] for name in _CONNECTION_PLAIN}
    for name in _CONNECTION_LISTS:
        fields[name] = tuple(row[prefix + name])
    for name in _TOGGLES:
        fields[name] = Toggle(row[prefix + name])
    kind = ConnectionType(row[prefix + "type"])
    is_needed = secrets is SecretUse.ALL or (secrets is SecretUse.DATABASES and kind is ConnectionType.DATABASE)
    secret: Mapping[str, Secret] = _UNOPENED
    if is_needed:
        secret = await open_secret(row[prefix + "secret"], encryption, fields["org_id"], fields["id"])
    return Connection(
        **fields,
        type=kind,
        guardrail_rules=tuple(sorted(str(UUID(key)) for key in split(row[prefix + "guardrail_rules"]))),
        secret=secret,
    )


async def connection_values(connection: Connection, encryption: Encryption) -> dict[str, Any]:
    """Return the columns of a connection's row; guardrails have their own table. Not inside a transaction."""
    names = [column.name for column in connections.c if column.name not in (*_CONNECTION_LISTS, "secret")]
    values: dict[str, Any] = {name: getattr(connection, name) for name in names}
    values |= {name: list(getattr(connection, name)) for name in _CONNECTION_LISTS}
    values["connection_tags"] = dict(connection.connection_tags)
    values["place"] = connection.place or connection.id
    values["secret"] = await seal_secret(connection, encryption)
    return values


async def seal_secret(connection: Connection, encryption: Encryption) -> bytes:
    clear = json.dumps({key: value.reveal() for key, value in connection.secret.items()})
    return await encryption.seal(clear.encode(), row=f"connections/{connection.id}", org_id=connection.org_id)


async def open_secret(sealed: bytes, encryption: Encryption, org_id: UUID, connection_id: UUID) -> dict[str, Secret]:
    opened = await encryption.open(sealed, row=f"connections/{connection_id}", org_id=org_id)
    clear: dict[str, str] = json.loads(opened.decode())
    return {key: Secret(value) for key, value in clear.items()}


def guardrail_of(row: Row, connection_ids: Sequence[UUID], prefix: str = "") -> Guardrail:
    """Return the guardrail. Raises ValueError or KeyError for a rule that this version does not know."""
    return Guardrail(
        id=row[f"{prefix}id"],
        org_id=row[f"{prefix}org_id"],
        name=row[f"{prefix}name"],
        description=row[f"{prefix}description"],
        enabled=row[f"{prefix}enabled"],
        input=_rules_of(row[f"{prefix}input"]),
        output=_rules_of(row[f"{prefix}output"]),
        connection_ids=tuple(connection_ids),
        created_at=row[f"{prefix}created_at"],
        updated_at=row[f"{prefix}updated_at"],
        version=row[f"{prefix}version"],
        managed_by=row[f"{prefix}managed_by"],
    )


def guardrail_values(guardrail: Guardrail) -> dict[str, Any]:
    """Return the columns that can change."""
    return {
        "name": guardrail.name,
        "description": guardrail.description,
        "enabled": guardrail.enabled,
        "input": rules_values(guardrail.input),
        "output": rules_values(guardrail.output),
        "updated_at": guardrail.updated_at,
    }


def _rules_of(stored: Sequence[Mapping[str, Any]]) -> tuple[Rule, ...]:
    return tuple(_rule_of(dict(rule)) for rule in stored)


def _rule_of(values: dict[str, Any]) -> Rule:
    """Return a rule; missing fields have the meaning that they had before the field existed."""
    for field, read in _RULE_FIELDS.items():
        if field in values:
            values[field] = read(values[field])
    return Rule(**values)


_RULE_FIELDS: Mapping[str, Callable[[Any], Any]] = {
    "type": RuleType,
    "words": tuple,
    "action": Action,
    "effects": lambda names: frozenset(Effect(name) for name in names),
    "objects": tuple,
    "unknown": lambda name: None if name is None else Unknown(name),
    "allow_functions": tuple,
}


def rules_values(rules: Sequence[Rule]) -> list[dict[str, Any]]:
    """Return rules as JSON without fields at their default, except for those of the first two types."""
    return [_rule_values(rule) for rule in rules]


def _rule_values(rule: Rule) -> dict[str, Any]:
    values: dict[str, Any] = asdict(rule)
    plain = asdict(Rule(rule.type))
    values |= {"effects": sorted(rule.effects)}
    always_stored = {"type", "words", "pattern_regex", "name"}
    return {
        field: list(value) if isinstance(value, tuple) else value
        for field, value in values.items()
        if field in always_stored or (value != plain[field] and value != [])
    }


def masking_rule_of(row: Row, connection_ids: Sequence[UUID], prefix: str = "") -> MaskingRule:
    """Return the rule. Raises ValueError, TypeError or KeyError for one that this version does not know."""
    rule = MaskingRule(
        id=row[f"{prefix}id"],
        org_id=row[f"{prefix}org_id"],
        name=row[f"{prefix}name"],
        description=row[f"{prefix}description"],
        groups=tuple(TypeGroup(group["name"], tuple(group["types"])) for group in row[f"{prefix}groups"]),
        custom_types=tuple(
            CustomType(values["name"], values["pattern_regex"], tuple(values["words"]), values["score"])
            for values in row[f"{prefix}custom_types"]
        ),
        columns=tuple(row[f"{prefix}columns"]),
        threshold=row[f"{prefix}threshold"],
        strategy=Strategy(row[f"{prefix}strategy"]),
        strictness=Strictness(row[f"{prefix}strictness"]),
        connection_ids=tuple(connection_ids),
        created_at=row[f"{prefix}created_at"],
        updated_at=row[f"{prefix}updated_at"],
        version=row[f"{prefix}version"],
        managed_by=row[f"{prefix}managed_by"],
    )
    _ = rule.types  # a type that is not known must not be left out
    return rule


def masking_rule_values(rule: MaskingRule) -> dict[str, Any]:
    """Return the columns that can change."""
    return {
        "name": rule.name,
        "description": rule.description,
        "groups": [{"name": group.name, "types": list(group.types)} for group in rule.groups],
        "custom_types": [
            {
                "name": custom.name,
                "pattern_regex": custom.pattern_regex,
                "words": list(custom.words),
                "score": custom.score,
            }
            for custom in rule.custom_types
        ],
        "columns": list(rule.columns),
        "threshold": rule.threshold,
        "strategy": rule.strategy.value,
        "strictness": rule.strictness.value,
        "updated_at": rule.updated_at,
    }


def among(connection: DatabaseConnection, ids: Sequence[UUID]) -> ColumnElement[bool]:
    """Return the condition for these sessions. PostgreSQL gets them as one value: a statement with hundreds of them
    would be planned anew each time."""
    if connection.dialect.name == "sqlite":
        return sessions.c.id.in_(ids)
    return sessions.c.id == any_(literal(list(ids), ARRAY(Uuid())))


SESSION_COLUMNS: list[ColumnElement[Any]] = [column for column in sessions.c if column.name != "script"]


def session_of(row: Row) -> Session:
    """Return the session. Its end is in its metadata: `end_reason`, and `end_detail` when there is more to say."""
    ending = {name: row[name] for name in ("end_reason", "end_detail") if row[name] is not None}
    plain = {
        name: row[name]
        for name in (
            *("id", "org_id", "connection_id", "connection", "connection_subtype", "connection_tags", "type"),
            *("user", "user_id", "user_name", "start_date", "end_date", "exit_code", "event_size", "script_size"),
            *("integrations_metadata", "labels", "metrics", "worker", "credential_id", "correlation_id"),
            *("holds", "recording_purged_at", "review_id"),
        )
    }
    return Session(
        **plain,
        verb=Verb(row["verb"]),
        status=SessionStatus(row["status"]),
        script=row.get("script"),
        runbook=None if row["runbook"] is None else RunbookRef(**row["runbook"]),
        metadata=dict(row["metadata"]) | ending,
    )
