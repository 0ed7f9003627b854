"""The OpenAPI document is valid: generators of clients can read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from postern.api.application import make_application
from postern.api.openapi_document import hoist_definitions


def references(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for item in node:
            yield from references(item)
    elif isinstance(node, dict):
        if isinstance(reference := node.get("$ref"), str):
            yield reference
        for value in node.values():
            yield from references(value)


def test_each_reference_leads_to_a_component() -> None:
    document = make_application().openapi()
    components = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(references(document)) <= components


def test_document_is_made_once() -> None:
    app = make_application()
    assert app.openapi() is app.openapi()


def test_local_definitions_become_components_also_of_one_another() -> None:
    inner = {"Inner": {"type": "string"}}
    outer = {"Outer": {"properties": {"in": {"$ref": "#/$defs/Inner"}}}}
    document = {
        "paths": {"/a": {"schema": {"$defs": {**inner, **outer}, "items": {"$ref": "#/$defs/Outer"}}}},
        "components": {"schemas": {"Inner": {"type": "string"}}},
    }
    hoist_definitions(document)
    assert document == {
        "paths": {"/a": {"schema": {"items": {"$ref": "#/components/schemas/Outer"}}}},
        "components": {
            "schemas": {
                "Inner": {"type": "string"},
                "Outer": {"properties": {"in": {"$ref": "#/components/schemas/Inner"}}},
            }
        },
    }


def test_two_definitions_of_one_name_are_an_error() -> None:
    document = {
        "paths": {"/a": {"schema": {"$defs": {"Same": {"type": "string"}}}}},
        "components": {"schemas": {"Same": {"type": "integer"}}},
    }
    with pytest.raises(ValueError, match="two different schemas are named 'Same'"):
        hoist_definitions(document)
