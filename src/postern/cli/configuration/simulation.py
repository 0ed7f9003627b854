"""What changed guardrails would have done to recorded sessions, beside what they do now."""

from __future__ import annotations

import json
from typing import Any

from postern.cli.configuration.gateway_state import GatewayState
from postern.cli.configuration.planning import ConfigurationPlan, PlanAction, PlannedChange
from postern.client.client_shapes import Row
from postern.errors import Unavailable

GUARDRAIL, MASKING = "guardrail", "masking-rule"
_NO_MASKING = "masking rules cannot be simulated; `postern masking test` tries one on a text"
_NOTHING: Row = {"actions": {}, "statements_read": 0, "caveats": []}


def simulate(state: GatewayState, plan: ConfigurationPlan, since: str) -> None:
    """Add a simulation to each changed guardrail, of the time since then."""
    for change in plan.pending:
        if change.kind.kind == MASKING and change.action is not PlanAction.DELETE:
            change.simulation = {"note": _NO_MASKING}
        elif change.kind.kind == GUARDRAIL:
            change.simulation = _compare(state, change, since)


def new_denials(plan: ConfigurationPlan) -> int:
    return sum((change.simulation or {}).get("new_denials", 0) for change in plan.changes)


def _compare(state: GatewayState, change: PlannedChange, since: str) -> Row:
    before = {} if change.resource is None else state.spec(change.resource)
    spec = change.document.spec if change.document else {}
    after = {} if change.document is None else {**before, **spec}
    old, new = (_run(state, change.name, rail, since) for rail in (before, after))
    more = new["actions"].get("deny", 0) - old["actions"].get("deny", 0)
    return {
        "actions": new["actions"],
        "actions_now": old["actions"],
        "statements_read": new["statements_read"],
        "new_denials": max(0, more),
        "caveats": new.get("caveats") or [],
        "stopped": new.get("stopped"),
    }


def _run(state: GatewayState, name: str, rail: Row, since: str) -> Row:
    """Simulate on the connections that exist already; a new one has no recordings."""
    connections = [known for known in rail.get("connections", ()) if state.exists("connection", known)]
    if not connections or rail.get("enabled") is False:
        return _NOTHING
    draft = {"name": name, **{side: rail[side] for side in ("input", "output") if rail.get(side)}}
    body = {"guardrail": draft, "connections": connections, "start_date": since}
    with state.client.simulate(body) as lines:
        for line in lines:
            step: dict[str, Any] = json.loads(line)
            if step["event"] == "result":
                return step
    raise Unavailable("the simulation ended without a result; try again")
