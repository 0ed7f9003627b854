"""What the client finds out by itself."""

from __future__ import annotations

import httpx
import pytest

from postern.client.client import Client
from postern.client.client_http import Http
from postern.errors import Conflict, NotFound


def answering(*agents: tuple[str, str]) -> Client:
    rows = [{"id": f"id of {name}", "name": name, "mode": mode, "status": "CONNECTED"} for name, mode in agents]
    page = {"data": rows, "total": len(rows), "has_next_page": False}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=page))
    return Client(Http("http://gateway", None, transport=transport))


def test_a_connection_gets_the_gateways_own_agent_or_the_only_one_and_never_any() -> None:
    found = answering(("edge", "standard"), ("embedded", "gateway")).default_agent_id()
    assert found == "id of embedded"
    assert answering(("edge", "standard")).default_agent_id() == "id of edge"
    with pytest.raises(Conflict, match="a1, b1; choose one with --agent"):
        answering(("a1", "standard"), ("b1", "standard")).default_agent_id()
    with pytest.raises(NotFound, match="no agent yet"):
        answering().default_agent_id()
