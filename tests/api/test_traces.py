"""Whose word counts about traces of requests: attacks by `traceparent`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.api.conftest import Api
from tests.support.collector import Collector, collecting

from postern.api.request_traces import STRANGERS
from postern.domain.tracing import NO_TRACER
from postern.integrations.tracing.tracing_otlp import OtlpTracer

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
PATH = "/connections/shop"
ROUTE = "GET /api/connections/{nameOrID}"


class Tracing:
    """The tracer that the application has; what it told is there once `told` was called."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self.tracer = OtlpTracer({"service.name": "postern"}, "1", lambda _: None)

    @property
    def told(self) -> Collector:
        self.tracer.close()
        return self._collector


@pytest.fixture
async def tracing(api: Api, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tracing]:
    monkeypatch.delenv("OTEL_TRACES_SAMPLER", raising=False)
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        made = Tracing(collector)
        api.app.state.tracer = made.tracer
        api.app.state.traced_strangers = (0, 0)
        yield made
        api.app.state.tracer = NO_TRACER
        made.tracer.close()


async def test_a_known_callers_trace_is_gone_on_with(api: Api, tracing: Tracing) -> None:
    await api.make_connection()
    answer = await api.as_ann.get(PATH, headers={"traceparent": SAMPLED, "tracestate": "x=y"})
    (told,) = tracing.told.named(ROUTE)
    assert (told.trace, told.parent, told.raw.trace_state) == (TRACE, SPAN, "")
    assert told.facts["postern.user.id"] == str(api.users["ann"].id)
    assert told.facts["postern.request.id"] == answer.headers["x-request-id"]


async def test_attack_a_stranger_neither_joins_a_trace_nor_has_one_kept(api: Api, tracing: Tracing) -> None:
    for given in (SAMPLED, UNSAMPLED):
        answer = await api.nobody.get(PATH, headers={"traceparent": given, "Authorization": "Bearer wrong"})
        assert answer.status_code == 401
    told = tracing.told.named(ROUTE)
    assert len(told) == 2  # the second is not kept back by its flag, either
    assert not [one for one in told if one.trace == TRACE or one.parent]


async def test_attack_a_login_that_fails_does_not_choose_its_trace(api: Api, tracing: Tracing) -> None:
    wrong = {"email": "ann@example.com", "password": "wrong"}
    await api.nobody.post("/localauth/login", json=wrong, headers={"traceparent": SAMPLED})
    (told,) = tracing.told.named("POST /api/localauth/login")
    assert (told.trace == TRACE, told.parent) == (False, "")


async def test_attack_a_flood_of_strangers_takes_nobodys_place(api: Api, tracing: Tracing) -> None:
    await api.make_connection()
    for number in range(200):
        await api.nobody.get(f"/nowhere/{number}")
    assert (await api.as_ann.get(PATH)).status_code in (200, 404)
    told = tracing.told
    assert len(told.named("GET none")) < 200 / 2
    assert len(told.named("GET none")) >= STRANGERS
    assert len(told.named(ROUTE)) == 1
    assert b"/nowhere/" not in b"".join(told.bodies)


@pytest.mark.parametrize("given", ["", "x" * 10_000, SAMPLED.upper(), "00-" + "0" * 32 + f"-{SPAN}-01"])
async def test_attack_what_is_no_traceparent_begins_a_trace(api: Api, tracing: Tracing, given: str) -> None:
    await api.as_ann.get("/connections", headers={"traceparent": given})
    (told,) = tracing.told.named("GET /api/connections")
    assert (told.parent, len(told.trace)) == ("", 32)


async def test_attack_two_traceparents_are_none(api: Api, tracing: Tracing) -> None:
    other = SAMPLED.replace("b7", "c8")
    await api.as_ann.get("/connections", headers=[("traceparent", SAMPLED), ("traceparent", other)])
    (told,) = tracing.told.named("GET /api/connections")
    assert told.parent == ""


async def test_attack_an_odd_method_or_path_names_no_span(api: Api, tracing: Tracing) -> None:
    await api.as_ann.request("FORGED", "/connections/%0aforged")
    (told,) = tracing.told.spans
    assert told.name.split(" ")[0] == "other"
    assert "forged" not in str(told.raw).lower()
