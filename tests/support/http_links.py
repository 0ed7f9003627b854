"""Links of HTTP applications, for tests of rules."""

from __future__ import annotations

from uuid import UUID

from tests.support.protocols.http_test_frames import Shown, request, response
from tests.support.protocols.playbook import OrderCheck, pieces
from tests.support.protocols.wire_contracts import new_link, sent_to

from postern.domain.rules.guardrail import Guardrail, Rule
from postern.domain.rules.masking import MaskingRule, Strategy, Strictness, TypeGroup
from postern.inspection.guardrails.guardrail_interceptor import GuardrailInterceptor
from postern.inspection.masking.masking_interceptor import Masking
from postern.inspection.masking.origins import Origins
from postern.inspection.sql.sql_parser import Parser
from postern.interception.pipeline import Interceptor
from postern.protocols.http.wire.http_wire import HttpWire
from postern.protocols.httpproxy.httpproxy_dialect import HttpproxyDialect
from postern.protocols.wire_base import Side
from postern.relay.link import Effect, Link

ID = UUID(int=1)
EMAIL = "alice.miller@example.com"
CARD = "4111111111111111"


def http_link(*interceptors: Interceptor, limit: int = 1 << 20) -> Link:
    return new_link(HttpWire(HttpproxyDialect(limit)), *interceptors)


def masking(
    *types: str,
    columns: tuple[str, ...] = (),
    strictness: Strictness = Strictness.STRICT,
    strategy: Strategy = Strategy.REPLACE,
    origins: Origins | None = None,
) -> Masking:
    groups = (TypeGroup("found", types or ("EMAIL_ADDRESS", "CREDIT_CARD")),) if types or not columns else ()
    rule = MaskingRule(ID, ID, "pii", groups=groups, columns=columns, strictness=strictness, strategy=strategy)
    return Masking(frozenset(), [rule], origins=origins)


def guards(*rules: Rule, output: tuple[Rule, ...] = (), parser: Parser | None = None) -> GuardrailInterceptor:
    return GuardrailInterceptor((Guardrail(ID, ID, "g", input=rules, output=output),), parser)


def say(link: Link, side: Side, content: bytes, size: int = 0) -> list[Effect]:
    effects: list[Effect] = []
    order = OrderCheck(carries=True)
    for piece in pieces(content, size) if size else [content]:
        some = link.receive(side, piece)
        order.check(some)
        effects += some
    return effects


def get(link: Link, body: bytes, content_type: str = "", *, size: int = 0, piece: int = 50, **options: object) -> Shown:
    """Send a GET, and return what the client is shown of the response."""
    headers = dict(options.pop("headers", None) or {})  # type: ignore[call-overload]
    if content_type:
        headers["content-type"] = content_type
    say(link, Side.CLIENT, request("/api/users", headers={"accept": "application/json"}))
    answer = response(body, headers=headers, piece=piece, **options)  # type: ignore[arg-type]
    return Shown(sent_to(Side.CLIENT, say(link, Side.TARGET, answer, size)))
