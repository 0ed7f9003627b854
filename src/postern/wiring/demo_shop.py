"""The demo's connection, its guardrail and its masking rule, which an administrator can change later.

Personal data is masked in two ways. The connection's information types find values by their form, in any text. The rule
names columns, which are followed through the statement, so that `email::bytea` and `replace(email, '@', ' at ')` are
masked as well.
"""

from __future__ import annotations

import base64

from postern.demo.demo_target import DemoTarget
from postern.domain.identity.principal import Principal
from postern.domain.lists import Page
from postern.domain.rules.guardrail import Guardrail, Rule, RuleType
from postern.domain.secret import Secret
from postern.domain.targets.connection import ConnectionType
from postern.errors import Conflict, NotFound
from postern.services.bundle import Services
from postern.services.targets.agents import EMBEDDED

NAME = "shop-demo"
GUARDRAIL = "no destructive statements"
MASKING = "customer data"
COLUMNS = tuple(
    f"customers.{column}" for column in ("email", "phone", "other_phones", "card", "ssn", "iban", "ip", "notes")
)

# Any text up to the end of the statement in which the word WHERE does not begin. RE2 has no look-ahead, so it is
# written letter by letter.
_NO_WHERE = r"(?:[^w;]|w[^h;]|wh[^e;]|whe[^r;]|wher[^e;])*(?:w|wh|whe|wher)?(?:;|$)"

RULES = {
    "drop": r"(?i)\bdrop\s+(?:table|view|materialized|schema|database|index|sequence|column|type|function|procedure"
    r"|role|user|owned|extension|trigger|policy|domain|foreign|server|publication|tablespace|constraint)\b",
    "truncate": r'(?i)\btruncate\s+(?:table\s+)?(?:only\s+)?["\w]',
    "delete without where": rf"(?i)\bdelete\s+from\s{_NO_WHERE}",
    "update without where": rf'(?i)\bupdate\s+(?:only\s+)?["\w.]+(?:\s*\*)?(?:\s+(?:as\s+)?["\w]+)?\s+set\s{_NO_WHERE}',
    "where that is always true": r"(?i)\bwhere\s+(?:true|1\s*=\s*1)\s*(?:;|$)",
}


async def make(services: Services, setter: Principal, target: DemoTarget) -> None:
    """Create the connection, its guardrail and its masking rule, if they are missing."""
    guardrail = await _guardrail(services, setter)
    agent = await services.agent_keys.get(setter, EMBEDDED)
    connection = {
        "name": NAME,
        "type": ConnectionType.DATABASE,
        "subtype": "postgres",
        "agent_id": agent.id,
        "connection_tags": {"environment": "demo"},
        "guardrail_rules": (str(guardrail.id),),
        "redact_enabled": True,
        "secret": _secret(target),
    }
    try:
        created = await services.connections.create(setter, connection)
    except Conflict:
        await follow(services, setter, target)
    else:
        await _mask_columns(services, setter, str(created.id))


async def follow(services: Services, setter: Principal, target: DemoTarget) -> None:
    """Update the port and password of the demo server. A connection that was deleted stays deleted."""
    try:
        current = await services.connections.get(setter, NAME)
    except NotFound:
        return
    secret = _secret(target)
    if {key: current.secret.get(key) for key in secret} != secret:
        await services.connections.update(setter, NAME, {"secret": {**current.secret, **secret}})


async def _guardrail(services: Services, setter: Principal) -> Guardrail:
    seen = 0
    while guardrails := (await services.guardrails.find(setter, Page(offset=seen))).items:
        if guardrail := next((rule for rule in guardrails if rule.name == GUARDRAIL), None):
            return guardrail
        seen += len(guardrails)
    rules = tuple(Rule(RuleType.PATTERN_MATCH, pattern_regex=pattern, name=name) for name, pattern in RULES.items())
    description = "Denies statements that empty or delete whole tables. Rules on text have limits: see the README."
    return await services.guardrails.create(setter, {"name": GUARDRAIL, "description": description, "input": rules})


async def _mask_columns(services: Services, setter: Principal, connection_id: str) -> None:
    """Create the masking rule, unless there is one with that name."""
    seen = 0
    while rules := (await services.masking_rules.find(setter, Page(offset=seen))).items:
        if any(rule.name == MASKING for rule in rules):
            return
        seen += len(rules)
    description = "Masks customers' personal data by column, through aliases, casts, functions and views."
    fields = {"name": MASKING, "description": description, "columns": COLUMNS, "connection_ids": (connection_id,)}
    await services.masking_rules.create(setter, fields)


def _secret(target: DemoTarget) -> dict[str, Secret]:
    values = {
        "HOST": target.host,
        "PORT": str(target.port),
        "USER": target.user,
        "PASS": target.password.reveal(),
        "DB": target.database,
        "SSLMODE": "disable",  # loopback, and the packaged server has no TLS
    }
    return {f"envvar:{key}": Secret(base64.b64encode(value.encode()).decode()) for key, value in values.items()}
