"""Checks of an agent's machine: its key, its connection to the gateway, its policy file."""

from __future__ import annotations

import ssl
import time

from postern.cli.doctor import clock, open_files, sockets
from postern.cli.doctor.finding import PATIENCE, Check, DoctorFinding, ok, wrong
from postern.cli.doctor.sockets import ProbeAddress
from postern.domain.targets.agent import AgentKey, AgentMode
from postern.errors import Malformed, PosternError, Unavailable
from postern.settings import AgentSettings
from postern.wiring.host import checks as wiring

_NEW = (
    "on the gateway: postern admin agents renew-key NAME; then start the agent with the new key. This "
    "ends the sessions of an agent that uses the old key"
)
_TRUST = f"an agent trusts the certificate authority in its key, so renew the key {_NEW}"


def checks(settings: AgentSettings) -> dict[str, Check]:
    checks_by_name: dict[str, Check] = {
        "policy": lambda: _policy(settings.agent_policy),
        "open files": lambda: open_files.check_hard_limit("the agent is started"),
    }
    try:
        key = AgentKey.read(settings.key)
    except PosternError as error:
        what = error.message if settings.key else "POSTERN_KEY is not set"
        return {"key": lambda: wrong("key", what, "the agent needs it to reach its gateway", _NEW), **checks_by_name}
    authority = ssl.DER_cert_to_PEM_cert(key.authority) if key.authority else ""
    place = ProbeAddress(key.host, key.port, True, authority, _TRUST)
    return {
        "key": lambda: ok("key", f"agent {key.name!r} of {place}, started with `{_started_by(key)}`"),
        "control port": lambda: sockets.reachable("control port", place, ["h2"]),
        "certificate": lambda: sockets.certificate("certificate", place),
        "accepted": lambda: _check_accepted(key, authority),
        **checks_by_name,
    }


def _started_by(key: AgentKey) -> str:
    return "postern run" if key.mode is AgentMode.EMBEDDED else "postern agent"


def _check_accepted(key: AgentKey, authority: str) -> list[DoctorFinding]:
    """Connect to the control port beside a running agent, then to the tunnel that it names. An agent that must declare
    its connection first learns no more here, because a check must change nothing."""
    try:
        url = wiring.fetch_tunnel_url(key, PATIENCE)
    except Malformed as error:
        if key.mode is AgentMode.EMBEDDED:  # by then its secret was accepted
            return ok("accepted", "the gateway accepts the key, and waits for the declaration of `postern run`")
        return wrong("accepted", error.message, "the gateway denies this agent", _NEW)
    except Unavailable as error:
        why = "it is unknown whether the gateway accepts this key"
        return wrong(
            "accepted", error.message, why, "fix what the control port reports, then run: postern doctor --agent"
        )
    except PosternError as error:
        return wrong("accepted", error.message, "the gateway denies this agent", _NEW)
    before = time.time()
    tunnel_findings, date = sockets.check_websocket("tunnel port", ProbeAddress.of(url, authority, _TRUST), key.secret)
    clock_findings = clock.compare_clocks(date, before, time.time()) if date is not None else []
    return [*ok("accepted", "the gateway accepts the key"), *tunnel_findings, *clock_findings]


def _policy(file: str) -> list[DoctorFinding]:
    if not file:
        return ok("policy", "none: this agent serves everything that its gateway requests")
    try:
        wiring.read_policy(file)
    except (PosternError, OSError) as error:
        text = error.message if isinstance(error, PosternError) else str(error)
        return wrong("policy", text, "the agent does not start with it", f"fix {file}; see docs/how-to/run-an-agent.md")
    return ok("policy", f"{file} can be read")
