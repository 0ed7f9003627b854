"""Options that guardrails and masking rules share: presets, and the connections that they apply to."""

from __future__ import annotations

from collections.abc import Sequence

from postern.cli.nouns import CONNECTION, Noun
from postern.cli.resource_group import Field
from postern.client.client import Client
from postern.client.client_shapes import Row
from postern.errors import NotFound

PRESET = Field("--preset", "preset", "Begin with this preset; other options change it.", only="create")
CONNECTIONS = Field("--connection", "connections", "A connection that it applies to.", many=True, completes=CONNECTION)


def presets(api: Client, noun: Noun) -> list[Row]:
    rows: list[Row] = api.collection(*noun.path).call("presets", method="GET")
    return rows


def apply_preset(api: Client, noun: Noun, body: Row, fields: Sequence[str]) -> Row:
    """Return the body with the fields of its preset, if it names one, and the ids of its connections.
    Raises NotFound."""
    body = dict(body)
    start = _preset(api, noun, body.pop("preset"), fields) if "preset" in body else {}
    if "connections" in body:
        body["connection_ids"] = [api.connections.get(name)["id"] for name in body.pop("connections")]
    return {**start, **body}


def _preset(api: Client, noun: Noun, name: str, fields: Sequence[str]) -> Row:
    for preset in presets(api, noun):
        if preset["name"] == name:
            return {field: preset[field] for field in fields}
    raise NotFound(f"there is no preset {name!r}; `postern {noun.command} presets` lists them")
