"""The plan: what differs between files and the gateway, and what `apply` does about it.

Fields that a file leaves out are not managed: they keep their values. Values of secrets are never shown, so they are
not compared here: they are sent, and the gateway compares them; it writes nothing if they are the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from postern.cli.configuration.documents import ResourceDocument
from postern.cli.configuration.gateway_state import GatewayResource, GatewayState, Key, is_set, stored_secrets
from postern.cli.configuration.resource_schema import SOFT, FileKind, SpecField, nearest
from postern.cli.configuration.secret_sources import SecretReference
from postern.client.client_shapes import Row
from postern.client.configuration_client import LastChange
from postern.domain.reference import is_reference
from postern.domain.text import one_line

MANAGED_BY = "managed_by"
_MOST_LOOKED_UP = 100  # changes for which the audit log is asked


class PlanAction(StrEnum):
    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"
    SEND = "send"  # nothing differs, but it has secrets, which only the gateway can compare


@dataclass(frozen=True)
class FieldChange:
    """`is_secret`: old and new say whether there is a value, and where the new one is from."""

    field: str
    old: Any
    new: Any
    is_secret: bool = False


@dataclass
class PlannedChange:
    action: PlanAction
    kind: FileKind
    name: str
    document: ResourceDocument | None = None
    resource: GatewayResource | None = None
    fields: list[FieldChange] = field(default_factory=list)
    last_change: LastChange | None = None
    simulation: Row | None = None

    @property
    def key(self) -> Key:
        return self.kind.kind, self.name

    @property
    def differs(self) -> bool:
        """Whether the gateway has something else than the files, besides the manager."""
        names = {change.field for change in self.fields}
        return self.action is PlanAction.DELETE or (self.action is PlanAction.CHANGE and names != {MANAGED_BY})

    @property
    def label(self) -> str:
        return f"{self.kind.kind} {self.name}"


@dataclass
class ConfigurationPlan:
    """`changes` are in the order in which they are carried out: deletions last, in reverse order."""

    manager: str
    changes: list[PlannedChange]
    unchanged: int = 0

    @property
    def pending(self) -> list[PlannedChange]:
        """What certainly changes something."""
        return [change for change in self.changes if change.action is not PlanAction.SEND]

    def count(self, action: PlanAction) -> int:
        return sum(change.action is action for change in self.changes)


@dataclass(frozen=True)
class ApplyOptions:
    """`keeps_secrets`: secrets that the gateway has are not sent. `takes_over`: also what another manager has."""

    manager: str
    prunes: bool = False
    keeps_secrets: bool = False
    takes_over: bool = False


class Planner:
    def __init__(self, state: GatewayState, options: ApplyOptions) -> None:
        self._state = state
        self._options = options

    def plan(self, documents: Sequence[ResourceDocument]) -> ConfigurationPlan:
        """Return the plan. Raises Invalid for a document that cannot be applied."""
        kinds = self._state.kinds.kinds
        self._state.load(kinds if self._options.prunes else {document.kind.kind for document in documents})
        declared = {document.key for document in documents}
        deletions = list(self._deletions(declared)) if self._options.prunes else []
        self._check(documents, self._state.resources.keys() - {change.key for change in deletions} | declared)
        changes = [change for document in documents if (change := self._change(document)) is not None]
        differing = [change for change in [*changes, *deletions] if change.differs]
        for change in differing[:_MOST_LOOKED_UP]:
            self._find_last_change(change)
        done = {change.key for change in changes}
        return ConfigurationPlan(self._options.manager, [*changes, *deletions], len(documents) - len(done))

    def _check(self, documents: Sequence[ResourceDocument], known: Set[Key]) -> None:
        """Check that all resources that documents name will exist. Raises Invalid."""
        for document in documents:
            for reference in document.references:
                is_open = reference.kind in SOFT or reference.kind in self._state.denied
                if not is_open and (reference.kind, reference.name) not in known:
                    hint = nearest(reference.name, (name for kind, name in known if kind == reference.kind))
                    raise reference.place.error(f"there is no {reference.kind} {one_line(reference.name)!r}{hint}")

    def _change(self, document: ResourceDocument) -> PlannedChange | None:
        listed = self._state.resources.get(document.key)
        if listed is None:
            return self._creation(document)
        self._check_manager(document, listed)
        if listed.is_left_out and document.spec:
            raise document.place.error(
                f"{document.kind.kind} {one_line(document.name)!r} cannot be changed by files: it is built in, "
                "revoked, or declared by an agent"
            )
        if not self.differences(document, listed) and not self._secrets_to_send(document, listed):
            return None
        current = self._state.reread(listed)  # with its version
        changes = self.differences(document, current)
        action = PlanAction.CHANGE if changes else PlanAction.SEND
        if changes and not document.kind.changes:
            names = ", ".join(change.field for change in changes)
            raise document.place.error(
                f"{document.kind.kind} {one_line(document.name)!r} cannot be changed ({names} differ); delete it "
                "first, or take the fields out"
            )
        return PlannedChange(action, document.kind, document.name, document, current, changes)

    def _creation(self, document: ResourceDocument) -> PlannedChange:
        kind = document.kind
        if not kind.creates:
            names = [name for known, name in self._state.resources if known == kind.kind]
            raise document.place.error(
                f"there is no {kind.kind} {one_line(document.name)!r}, and it cannot be created"
                f"{nearest(document.name, names)}"
            )
        changes = [
            change for name, value in document.spec.items() for change in self._new_values(kind.fields[name], value)
        ]
        return PlannedChange(PlanAction.CREATE, kind, document.name, document, None, changes)

    def _new_values(self, known: SpecField, value: Any) -> Iterator[FieldChange]:
        if known.secret is None:
            yield FieldChange(known.name, None, value)
            return
        for key, source in _keys(known, value):
            if source is not None:
                yield FieldChange(key, None, str(source), is_secret=not source.is_literal)

    def _check_manager(self, document: ResourceDocument, current: GatewayResource) -> None:
        manager = current.managed_by
        if manager in (None, self._options.manager) or self._options.takes_over:
            return
        raise document.place.error(
            f"{document.kind.kind} {one_line(document.name)!r} is managed by {one_line(str(manager))!r}; use --manager "
            "with this name, take it out of the files, or use --take-over"
        )

    def differences(self, document: ResourceDocument, current: GatewayResource) -> list[FieldChange]:
        """Return the fields in which the gateway differs from the document."""
        kind = document.kind
        changes: list[FieldChange] = []
        for name, value in document.spec.items():
            known = kind.fields[name]
            if known.secret is not None:
                changes += self._secret_differences(known, value, current)
            elif known.api_name in current.row:
                old = kind.normal(known, self._state.value(known, current.row))
                new = kind.normal(known, value)
                if old != new and not (_is_empty(old) and _is_empty(new)):
                    changes.append(FieldChange(name, old, new))
        manager = self._options.manager
        if kind.has_manager and kind.changes and current.managed_by != manager:
            changes.append(FieldChange(MANAGED_BY, current.managed_by, manager))
        return changes

    def _secret_differences(self, known: SpecField, value: Any, current: GatewayResource) -> Iterator[FieldChange]:
        """Yield what is known to differ: values that are not secret, and keys that appear or disappear."""
        if not known.is_map:
            if known.secret and (value is not None) != is_set(current, known):
                yield FieldChange(known.name, None if value else "(set)", value and str(value), is_secret=True)
            return
        stored = stored_secrets(current, known)
        for key, source in (value or {}).items():
            at = f"{known.name}.{key}"
            if source is None:
                if key in stored:
                    yield FieldChange(at, stored[key] or "(set)", None, is_secret=True)
            elif key not in stored:
                yield FieldChange(at, None, str(source), is_secret=not source.is_literal)
            elif source.is_literal and source.value != stored[key]:
                yield FieldChange(at, stored[key] or "(set)", source.value)
            elif stored[key] is not None and not source.is_literal:
                yield from self._shown_differences(at, stored[key], source)
        if not known.keeps:
            for key in sorted(stored.keys() - (value or {}).keys()):
                yield FieldChange(f"{known.name}.{key}", "(set)", None, is_secret=True)

    def _shown_differences(self, at: str, stored: str | None, source: SecretReference) -> Iterator[FieldChange]:
        """Compare a value that the gateway shows, such as a host name, with a variable or a file."""
        if is_reference(str(stored)):
            yield FieldChange(at, stored, str(source), is_secret=True)
            return
        value = source.read(os.environ)
        text = None if value is None else value.decode(errors="replace")
        if text is not None and text != stored:
            yield FieldChange(at, stored, text)

    def _secrets_to_send(self, document: ResourceDocument, current: GatewayResource) -> bool:
        return (
            not self._options.keeps_secrets
            and bool(document.kind.changes)
            and any(
                source is not None and not source.is_literal
                for name, value in document.spec.items()
                if (known := document.kind.fields[name]).secret
                for _, source in _keys(known, value)
            )
        )

    def _deletions(self, declared: set[Key]) -> Iterator[PlannedChange]:
        order = list(self._state.kinds.kinds)
        mine = [
            resource
            for key, resource in self._state.resources.items()
            if key not in declared
            and resource.kind.deletes
            and not resource.is_left_out
            and resource.managed_by == self._options.manager
        ]
        for resource in sorted(mine, key=lambda one: (-order.index(one.kind.kind), one.name)):
            current = self._state.reread(resource)
            if current.managed_by == self._options.manager:
                yield PlannedChange(PlanAction.DELETE, resource.kind, resource.name, None, current)

    def _find_last_change(self, change: PlannedChange) -> None:
        """Ask the audit log who changed last what differs now: a file, or a user of the gateway."""
        assert change.resource is not None, "what differs is on the gateway"
        kind, row = change.kind, change.resource.row
        plain = kind.path if kind.is_single else f"{kind.path}/{row[kind.name_field]}"
        paths = {plain} if kind.is_single else {plain, f"{kind.path}/{row[kind.address]}"}
        change.last_change = self._state.client.last_change(*sorted(paths))


def _keys(known: SpecField, value: Any) -> Iterable[tuple[str, SecretReference | None]]:
    if isinstance(value, dict):
        return [(f"{known.name}.{key}", source) for key, source in value.items()]
    return [(known.name, value)]


def _is_empty(value: Any) -> bool:
    return value in (None, "", [], {})
