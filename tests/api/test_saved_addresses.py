"""The fields of the API in which somebody saves an address, each with the test of the rule about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.api.conftest import Api

ADDRESS = re.compile(r"(url|uri|address|host|endpoint|issuer|server|networks?)$", re.IGNORECASE)

# By the rule of domain/addresses.py when they are saved: tests/services/test_saved_addresses.py has sinks, with the
# addresses in their keys, and identity providers; tests/domain/test_addresses.py has repositories and trackers.
CHECKED = {
    ("SinkRequest", "address"),
    ("SinkPatch", "address"),
    ("OidcRequest", "issuer_url"),
    ("SamlRequest", "idp_metadata_url"),
    ("RepositoryRequest", "git_url"),
    ("RepositoryPatch", "git_url"),
    ("TrackerRequest", "url"),
    ("FederationRuleRequest", "issuer_url"),
    ("FederationRulePatch", "issuer_url"),
}
NOT_CONNECTED_TO = {
    ("ApiKeyRequest", "allowed_networks"): "networks of clients",
    ("ApiKeyPatch", "allowed_networks"): "networks of clients",
    ("NetworkRuleRequest", "allowed_networks"): "networks of clients",
    ("NetworkRulePatch", "allowed_networks"): "networks of clients",
    ("AppLoginRequest", "host"): "the host that a browser asked for; must be that of the connection",
    ("ListenerConfig", "listen_address"): "where this server listens; operators only",
    ("MiscConfigRequest", "api_url"): "where clients find this server",
    ("MiscConfigRequest", "public_host"): "where clients find this server",
}


def properties(schema: Any, name: str = "") -> Iterator[tuple[str, str]]:
    for field, value in schema.get("properties", {}).items():
        yield name, field
        yield from properties(value, name)


def bodies(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The names of the schemas that requests have, and of their fields."""
    schemas = document["components"]["schemas"]
    waiting, seen = [], set()
    for path in document["paths"].values():
        for operation in path.values():
            if isinstance(operation, dict) and "requestBody" in operation:
                waiting += re.findall(r"#/components/schemas/([\w.-]+)", str(operation["requestBody"]))
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        waiting += re.findall(r"#/components/schemas/([\w.-]+)", str(schemas[name]))
        yield from properties(schemas[name], name)


async def test_every_field_with_an_address_is_known_to_be_checked(api: Api) -> None:
    found = {(name, field) for name, field in bodies(api.app.openapi()) if ADDRESS.search(field)}
    assert found == CHECKED | NOT_CONNECTED_TO.keys()
