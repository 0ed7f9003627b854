"""The OpenAPI document: FastAPI's own, with the ways to authenticate, and with all references valid."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from postern.api.authentication_of_requests import SECURITY_SCHEMES
from postern.api.route import eager

_LOCAL, _COMPONENT = "#/$defs/", "#/components/schemas/"


class DescribedApplication(FastAPI):
    """Declare the ways to authenticate without dependencies: FastAPI would resolve these again for every parameter of a
    route that needs the caller."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is not None:
            return self.openapi_schema
        self.router.routes[:] = eager(self.router.routes)
        described = super().openapi()
        described["components"]["securitySchemes"] = SECURITY_SCHEMES
        hoist_definitions(described)
        return described


def hoist_definitions(document: dict[str, Any]) -> None:
    """Move definitions that pydantic puts into a schema (`$defs`) to the components. References to them begin at the
    document's root, so they lead nowhere below a response. Raises ValueError for two definitions of one name."""
    schemas = document["components"]["schemas"]
    for name, schema in _definitions(document["paths"]):
        if schemas.setdefault(name, schema) != schema:
            raise ValueError(f"two different schemas are named {name!r} in the OpenAPI document; rename one of them")


def _definitions(node: Any) -> list[tuple[str, Any]]:
    """Remove all local definitions below this node, and correct the references to them."""
    if isinstance(node, list):
        return [definition for item in node for definition in _definitions(item)]
    if not isinstance(node, dict):
        return []
    definitions = list(node.pop("$defs", {}).items())
    if isinstance(reference := node.get("$ref"), str) and reference.startswith(_LOCAL):
        node["$ref"] = _COMPONENT + reference.removeprefix(_LOCAL)
    inner = [definition for value in node.values() for definition in _definitions(value)]
    return [*definitions, *(pair for _, schema in definitions for pair in _definitions(schema)), *inner]
