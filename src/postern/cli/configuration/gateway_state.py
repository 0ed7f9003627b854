"""What the gateway has, in the form of files: names instead of identifiers, and of secrets only which are set."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from postern.cli.configuration.resource_schema import FileKind, FileKinds, SpecField
from postern.cli.configuration.secret_sources import variable_of
from postern.client.client_shapes import Row
from postern.client.configuration_client import ConfigurationClient
from postern.domain.reference import is_reference
from postern.errors import Denied

Key = tuple[str, str]  # kind and name

# Rows that a configuration does not have: the gateway's own agents, keys that were revoked, connections that an agent
# declares, and connections without a retention of their own.
_LEFT_OUT: Mapping[str, Any] = {
    "agent": lambda row: row["mode"] == "gateway",
    "api-key": lambda row: row["status"] == "revoked",
    "connection": lambda row: (row["managed_by"] or "").startswith("agent:"),
    "connection-retention": lambda row: not row["is_own"],
}


@dataclass(frozen=True)
class GatewayResource:
    """A resource of the gateway. `etag` is its version, if that was read."""

    kind: FileKind
    name: str
    row: Row
    etag: str = ""

    @property
    def managed_by(self) -> str | None:
        return self.row.get("managed_by")

    @property
    def is_left_out(self) -> bool:
        leave_out = _LEFT_OUT.get(self.kind.kind)
        return leave_out is not None and bool(leave_out(self.row))


@dataclass
class GatewayState:
    """`denied` are kinds that the caller cannot read."""

    client: ConfigurationClient
    kinds: FileKinds
    resources: dict[Key, GatewayResource] = field(default_factory=dict)
    denied: list[str] = field(default_factory=list)
    _names: dict[tuple[str, str], str] = field(default_factory=dict)  # kind and identifier → name
    _loaded: set[str] = field(default_factory=set)
    _variables: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of exported secrets, and what each is for

    def load(self, names: Iterable[str]) -> None:
        """Read all resources of these kinds, and of those that they refer to."""
        for name in names:
            if name in self._loaded or name not in self.kinds.kinds:
                continue
            self._loaded.add(name)
            kind = self.kinds.kinds[name]
            self.load(kind.references)
            try:
                rows = self.client.rows(kind.path, is_single=kind.is_single)
            except Denied:
                self.denied.append(name)
                continue
            for row in rows:
                self.add(kind, row)

    def add(self, kind: FileKind, row: Row, etag: str = "") -> GatewayResource:
        name = kind.kind if kind.is_single else str(row[kind.name_field])
        resource = GatewayResource(kind, name, row, etag)
        self.resources[kind.kind, name] = resource
        if "id" in row:
            self._names[kind.kind, str(row["id"])] = name
        return resource

    def reread(self, resource: GatewayResource) -> GatewayResource:
        """Return the resource as it is now, with its version. Raises NotFound."""
        versioned = self.client.read(resource.kind.item_path(resource.row)) if _has_item(resource.kind) else None
        if versioned is None:
            rows = self.client.rows(resource.kind.path, is_single=False)
            row = next(row for row in rows if str(row[resource.kind.name_field]) == resource.name)
            return self.add(resource.kind, row)
        return self.add(resource.kind, versioned.row, versioned.etag)

    def identifier(self, kind: str, name: str) -> str:
        return str(self.resources[kind, name].row["id"])

    def exists(self, kind: str, name: str) -> bool:
        return (kind, name) in self.resources

    def value(self, known: SpecField, row: Row) -> Any:
        """Return a field as files have it; None if answers do not show it."""
        value = row.get(known.api_name)
        if known.by_id and value is not None:
            return self._names_of(known.refers_to, value)
        return value

    def _names_of(self, kind: str, value: Any) -> Any:
        if isinstance(value, list):
            return sorted(self._names_of(kind, item) for item in value)
        return self._names.get((kind, str(value)), str(value))

    def spec(self, resource: GatewayResource) -> dict[str, Any]:
        """Return the fields as an export has them, with references for secrets."""
        kind, spec = resource.kind, {}
        for name, known in kind.fields.items():
            if known.secret is not None:
                secret = self._export_secret(resource, known)
                if secret:
                    spec[name] = secret
            elif known.api_name in resource.row:
                value = self._export_value(resource, known, kind.normal(known, self.value(known, resource.row)))
                if value is not None:
                    spec[name] = value
        return spec

    def _export_secret(self, resource: GatewayResource, known: SpecField) -> Any:
        if known.is_map:
            stored = stored_secrets(resource, known)
            return {
                key: self._placeholder(resource, key.partition(":")[2] or key) if value is None else value
                for key, value in sorted(stored.items())
            }
        return self._placeholder(resource, known.name) if is_set(resource, known) else None

    def _export_value(self, resource: GatewayResource, known: SpecField, value: Any) -> Any:
        """Return the value with references for secrets in it, such as of the login settings."""
        shown = resource.row.get(known.api_name)
        if isinstance(value, dict) and isinstance(shown, dict):
            for name, shown_in in known.inner_secrets(resource.kind.spec).items():
                if shown.get(shown_in):
                    value = {**value, name: self._placeholder(resource, name)}
        return value

    def _placeholder(self, resource: GatewayResource, field_name: str) -> dict[str, str]:
        """Return the reference that an export has for a secret. No two secrets have the same variable."""
        kind = resource.kind.kind
        parts = (*(() if kind == "connection" else (kind,)), resource.name, field_name)
        name = variable_of(*parts)
        if self._variables.setdefault(name, parts) != parts:
            name = f"{name}_{hashlib.sha256(repr(parts).encode()).hexdigest()[:8].upper()}"
        return {"env": name}


def _has_item(kind: FileKind) -> bool:
    return kind.is_single or kind.has_manager or bool(kind.names)


def stored_secrets(resource: GatewayResource, known: SpecField) -> dict[str, str | None]:
    """Return the keys of a secret field that are set, with values that are not secret; None for all others."""
    shown = resource.row.get(known.secret or "") or {}
    if not isinstance(shown, dict):
        return dict.fromkeys(shown)
    readable = resource.row.get(known.readable) or {}
    values: dict[str, str | None] = {}
    for key, reference in shown.items():
        public = readable.get(key.partition(":")[2])
        values[key] = reference if reference is not None and is_reference(reference) else public
    return values


def is_set(resource: GatewayResource, known: SpecField) -> bool:
    """Return whether a secret field with one value is set, as far as answers say so."""
    shown = resource.row.get(known.secret or "")
    return known.api_name in shown if isinstance(shown, list) else bool(shown)
