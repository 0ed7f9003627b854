"""Carries out a plan, in its order, and stops at the first failure, because later changes can depend on it.

Each write names the version that the plan was made of, so a change in the meantime is a conflict, and is not lost.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, TypeVar

from postern.cli.configuration.documents import ResourceDocument
from postern.cli.configuration.gateway_state import GatewayResource, GatewayState, is_set, stored_secrets
from postern.cli.configuration.planning import (
    MANAGED_BY,
    ApplyOptions,
    ConfigurationPlan,
    FieldChange,
    PlanAction,
    PlannedChange,
    Planner,
)
from postern.cli.configuration.resource_schema import FileKind, SpecField
from postern.cli.configuration.secret_sources import SecretReference, encode
from postern.cli.connection_files import MODES
from postern.client.client_shapes import Row
from postern.client.configuration_client import Versioned
from postern.domain.targets.target_keys import check_target_keys
from postern.domain.text import one_line
from postern.errors import Conflict, Invalid, NotFound, PosternError, PreconditionFailed

T = TypeVar("T")
_SHOWN_ONCE = ("key", "credentials", "new_credentials")
# What a new connection has if its file says nothing else, as with `postern connections create`.
_DEFAULTS: Mapping[str, Row] = {"connection": {"type": "database", **MODES}}


@dataclass
class ApplyOutcome:
    """What was done: changes with a word for each, the one that failed, and those that were not tried.

    `inexact` are fields that the gateway stored in a different form, and `notices` its own. `unsaved` are resources
    whose secret was shown once and went nowhere.
    """

    done: list[tuple[PlannedChange, str]] = field(default_factory=list)
    failed: PlannedChange | None = None
    error: PosternError | None = None
    not_done: list[PlannedChange] = field(default_factory=list)
    inexact: list[tuple[PlannedChange, FieldChange]] = field(default_factory=list)
    notices: list[tuple[PlannedChange, str]] = field(default_factory=list)
    unsaved: list[PlannedChange] = field(default_factory=list)


Values = Mapping[int, bytes]  # the values of secrets, by the identity of their source


def read_secrets(plan: ConfigurationPlan, options: ApplyOptions, environ: Mapping[str, str]) -> Values:
    """Return the values of all secrets that will be sent. Raises Invalid, which names variables that are not set."""
    values, missing = {}, []
    for change in plan.changes:
        for source in _sources_to_send(change, options):
            value = source.read(environ)
            if value is None:
                missing.append(f"{source.place}: the variable {source.value} is not set")
            else:
                values[id(source)] = value
    if missing:
        more = f"\n(and {len(missing) - 20} more)" if len(missing) > 20 else ""
        hint = "set them, or use --keep-secrets to leave secrets as they are that the gateway has already"
        raise Invalid("\n".join(missing[:20]) + f"{more}\n{hint}")
    return values


def _sources_to_send(change: PlannedChange, options: ApplyOptions) -> Iterator[SecretReference]:
    if change.document is None:
        return
    for name, value in change.document.spec.items():
        known = change.document.kind.fields[name]
        if known.secret is None:
            if change.resource is None or not options.keeps_secrets:
                yield from _inner_sources(value)
        elif change.resource is None or known.secret:
            kept = _kept_keys(known, value, change.resource, options)
            for key, source in _entries(known, value):
                if source is not None and (key not in kept or source.is_literal):
                    yield source


def _inner_sources(value: Any) -> Iterator[SecretReference]:
    if isinstance(value, SecretReference):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _inner_sources(inner)


def _entries(known: SpecField, value: Any) -> list[tuple[str, SecretReference | None]]:
    if isinstance(value, dict):
        return list(value.items())
    return [] if value is None and known.is_map else [("", value)]


def _kept_keys(known: SpecField, value: Any, current: GatewayResource | None, options: ApplyOptions) -> Collection[str]:
    """Return the keys whose stored values stay, so that none is sent. A field that is replaced as a whole is kept as a
    whole."""
    if current is None or not options.keeps_secrets:
        return ()
    if not known.is_map:
        return ("",) if is_set(current, known) else ()
    stored = stored_secrets(current, known).keys()
    return stored if known.keeps or stored == (value or {}).keys() else ()


def _is_same(before: GatewayResource | None, written: Versioned) -> bool:
    if before is None:
        return False
    return written.etag == before.etag if before.etag else written.row == before.row


class PlanRunner:
    """`once` is the file for secrets that are shown once."""

    def __init__(self, state: GatewayState, options: ApplyOptions, values: Values, once: IO[str] | None = None) -> None:
        self._state = state
        self._options = options
        self._values = values
        self._once = once
        self._planner = Planner(state, options)

    def carry_out(
        self, plan: ConfigurationPlan, notify: Callable[[PlannedChange], None] = lambda _: None
    ) -> ApplyOutcome:
        outcome = ApplyOutcome()
        for position, change in enumerate(plan.changes):
            notify(change)
            try:
                outcome.done.append((change, self._do(change, outcome)))
            except PosternError as error:
                outcome.failed, outcome.error = change, error
                outcome.not_done = plan.changes[position + 1 :]
                break
        return outcome

    def _do(self, change: PlannedChange, outcome: ApplyOutcome) -> str:
        if change.document is None:
            return self._delete(change)
        if change.resource is None:
            written = self._create(change, change.document)
        else:
            written = self._update(change, change.document, change.resource)
        self._save_once(change, written.row, outcome)
        self._compare(change, change.document, written.row, outcome)
        if change.action is not PlanAction.SEND:
            return "created" if change.resource is None else "changed"
        return "unchanged" if _is_same(change.resource, written) else "changed (secret)"

    def _create(self, change: PlannedChange, document: ResourceDocument) -> Versioned:
        kind = document.kind
        body = {**_DEFAULTS.get(kind.kind, {}), **self._body(change, document, set(document.spec))}
        if kind.takes_name:
            body[kind.name_field] = document.name
        if kind.kind == "connection":
            body.setdefault("agent_id", self._default_agent())
            check_target_keys(str(body.get("subtype")), body.get("secret") or {})
        path = kind.path if kind.creates == "POST" or kind.is_single else kind.item_path({kind.address: document.name})
        written = self._state.client.write(kind.creates, path, body)
        created = self._state.add(kind, written.row)
        if created.name != document.name:
            raise Conflict(f"it was created as {created.name!r}; write this as its `name`")
        return written

    def _update(self, change: PlannedChange, document: ResourceDocument, current: GatewayResource) -> Versioned:
        kind = document.kind
        names = {difference.field.partition(".")[0] for difference in change.fields} - {MANAGED_BY}
        names |= {name for name in document.spec if kind.fields[name].secret or not self._is_shown(kind, name, current)}
        if "redact_types" in names and "redact_enabled" in document.spec:
            names.add("redact_enabled")  # else the gateway derives it
        body = self._body(change, document, names)
        if kind.changes == "PUT":
            whole = {field.api_name for field in kind.fields.values() if field.secret is None}
            body = {**{name: current.row[name] for name in whole if name in current.row}, **body}
        path = kind.item_path(current.row)
        written = self._with_version(
            change, current, lambda etag: self._state.client.write(kind.changes, path, body, etag)
        )
        self._state.add(kind, written.row)
        return written

    def _is_shown(self, kind: FileKind, name: str, current: GatewayResource) -> bool:
        """Return whether answers have the field; others are sent with every change."""
        known = kind.fields[name]
        return known.secret is not None or known.api_name in current.row

    def _delete(self, change: PlannedChange) -> str:
        current = change.resource
        assert current is not None, "a deletion is of a resource"
        path = current.kind.item_path(current.row)
        try:
            self._with_version(change, current, lambda etag: self._state.client.delete(path, etag))
        except NotFound:
            return "gone already"
        self._state.resources.pop(change.key, None)
        return "deleted"

    def _with_version(self, change: PlannedChange, planned: GatewayResource, write: Callable[[str], T]) -> T:
        """Write if it is as it was in the plan. Other changes of this plan can have given it a new version: a rule that
        lists a connection is a change of both."""
        if not planned.etag:
            self._require_same(change, planned)
            return write("")
        try:
            return write(planned.etag)
        except PreconditionFailed:
            return write(self._require_same(change, planned).etag)

    def _require_same(self, change: PlannedChange, planned: GatewayResource) -> GatewayResource:
        before, now = self._state.spec(planned), self._state.reread(planned)
        if before != self._state.spec(now) or planned.managed_by != now.managed_by:
            raise Conflict(f"{one_line(change.label)} was changed since the plan was made; plan again")
        return now

    def _body(self, change: PlannedChange, document: ResourceDocument, names: set[str]) -> Row:
        body: Row = {MANAGED_BY: self._options.manager} if document.kind.has_manager else {}
        for name in document.spec.keys() & names:
            known, value = document.kind.fields[name], document.spec[name]
            if known.secret is None:
                body[known.api_name] = self._plain(known, value)
            elif change.resource is None or known.secret:
                secret = self._secret(known, value, change.resource)
                if secret is not None:
                    body[known.api_name] = secret
        return body

    def _plain(self, known: SpecField, value: Any) -> Any:
        if known.by_id and value:
            names = value if isinstance(value, list) else [value]
            ids = [self._state.identifier(known.refers_to, name) for name in names]
            return ids if isinstance(value, list) else ids[0]
        return self._with_inner_secrets(value)

    def _with_inner_secrets(self, value: Any) -> Any:
        if isinstance(value, SecretReference):
            return encode(self._values[id(value)], value, as_base64=False)
        if isinstance(value, dict):
            sent = {key: inner for key, inner in value.items() if not self._is_left_out(inner)}
            return {key: self._with_inner_secrets(inner) for key, inner in sent.items()}
        return value

    def _is_left_out(self, value: Any) -> bool:
        return isinstance(value, SecretReference) and id(value) not in self._values

    def _secret(self, known: SpecField, value: Any, current: GatewayResource | None) -> Any:
        """Return the field of the request; None leaves it out."""
        sent = {key: self._text(known, source) for key, source in _entries(known, value) if self._is_sent(source)}
        if not known.is_map:
            has_one = current is not None and is_set(current, known)
            return sent.get("") if sent else ("" if value is None and has_one else None)
        stored = {} if current is None else stored_secrets(current, known)
        removed = {key for key, source in _entries(known, value) if source is None}
        if known.encoded:
            return {**dict.fromkeys(stored.keys() - removed), **sent} if value or stored else None
        return sent if sent or not value else None

    def _is_sent(self, source: SecretReference | None) -> bool:
        return source is not None and id(source) in self._values

    def _text(self, known: SpecField, source: SecretReference | None) -> str:
        assert source is not None, "only sources are sent"
        return encode(self._values[id(source)], source, as_base64=known.encoded)

    def _default_agent(self) -> str:
        agents = [resource for (kind, _), resource in self._state.resources.items() if kind == "agent"]
        chosen = [agent for agent in agents if agent.row["mode"] == "gateway"] or agents
        if len(chosen) != 1:
            raise Invalid("spec.agent: is required, since there is not one agent only")
        return str(chosen[0].row["id"])

    def _save_once(self, change: PlannedChange, row: Row, outcome: ApplyOutcome) -> None:
        shown = {name: row[name] for name in _SHOWN_ONCE if row.get(name)}
        if isinstance(row.get("secret"), str):
            shown["secret"] = row["secret"]
        if not shown:
            return
        if self._once is None:
            outcome.unsaved.append(change)
            return
        self._once.write(json.dumps({"kind": change.kind.kind, "name": change.name, **shown}) + "\n")
        self._once.flush()
        os.fsync(self._once.fileno())

    def _compare(self, change: PlannedChange, document: ResourceDocument, row: Row, outcome: ApplyOutcome) -> None:
        outcome.notices += [(change, text) for name in ("warnings", "notices") for text in row.get(name) or ()]
        stored = GatewayResource(document.kind, document.name, row)
        for difference in self._planner.differences(document, stored):
            if not difference.is_secret:
                outcome.inexact.append((change, difference))
