"""Checks of this machine's command line: its profile, and its connection to the gateway."""

from __future__ import annotations

import socket
import stat
import time
from collections.abc import Mapping
from typing import cast

from postern import __version__
from postern.cli.doctor import clock, doctor_agents, sockets
from postern.cli.doctor.finding import PATIENCE, Check, DoctorFinding, ok, warning, wrong
from postern.cli.doctor.sockets import ProbeAddress
from postern.cli.login import profile
from postern.cli.login.profile import Profile
from postern.cli.login.sign_in_methods import is_in_clear
from postern.client.client_http import Http
from postern.client.client_shapes import Row, ServerInfo
from postern.domain.secret import Secret
from postern.errors import PosternError, Unauthenticated

_PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")


def checks(environ: Mapping[str, str], port: int) -> dict[str, Check]:
    """Return the checks. `port` is the local one to forward from; 0 for any."""
    checks_by_name: dict[str, Check] = {
        "profile": lambda: _profile(environ),
        "proxies": lambda: _proxies(environ),
        "local port": lambda: _local_port(port),
    }
    try:
        used = profile.find(environ)
    except PosternError:  # the check of the profile reports what is wrong
        used = None
    if used is None:
        return checks_by_name
    at = used
    checks_by_name["gateway"] = lambda: _gateway(at)
    checks_by_name["certificate"] = lambda: sockets.certificate(
        "certificate", ProbeAddress.of(at.api_url, at.authority)
    )
    if at.token is not None:
        token = at.token
        checks_by_name["token"] = lambda: _token(at)
        checks_by_name["ports"] = lambda: _ports(at, token)
        checks_by_name["agents"] = lambda: _agents(at, token)
    return checks_by_name


def _profile(environ: Mapping[str, str]) -> list[DoctorFinding]:
    file = profile.path(environ)
    why, do = "every command needs a gateway and a login", "postern login https://GATEWAY:7480"
    try:
        used = profile.find(environ)
    except PosternError as error:
        return wrong("profile", error.message, "the file contains your tokens", f"chmod 600 {file}")
    if used is None:
        return wrong("profile", f"no gateway is set ({file})", why, do)
    if used.token is None:
        return wrong("profile", f"you are not logged in to {used.api_url}", why, f"postern login {used.api_url}")
    findings = ok("profile", f"{used.email or 'a token of an unknown user'} at {used.api_url}")
    if file.parent.exists() and stat.S_IMODE(file.parent.stat().st_mode) & 0o022:
        why = "other users could replace the file, and with it the gateway that gets your tokens"
        findings += warning("profile", f"other users can write to {file.parent}", why, f"chmod 700 {file.parent}")
    return findings


def _gateway(used: Profile) -> list[DoctorFinding]:
    try:
        with Http(used.api_url, authority=used.authority or None, timeout=PATIENCE) as http:
            before = time.time()
            answer = http.send("GET", "/publicserverinfo")
    except PosternError as error:
        do = f"check the address, then: postern login {used.api_url}"
        if "certificate is not trusted" in error.message:
            do = f"postern login {used.api_url} --ca FILE; the gateway has the file in its data folder, tls/ca.crt"
        return wrong("gateway", error.message, "every command uses it", do)
    findings = ok("gateway", f"{used.api_url} answers")
    if is_in_clear(used.api_url):
        why = "others on the network can read your password and all data"
        findings = warning("gateway", f"{used.api_url} is not encrypted", why, "postern login https://GATEWAY:7480")
    return [*findings, *clock.compare_clocks(answer.headers.get("Date"), before, time.time())]


def _token(used: Profile) -> list[DoctorFinding]:
    try:
        with Http(used.api_url, used.token, authority=used.authority or None, timeout=PATIENCE) as http:
            who = cast(Row, http.call("GET", "/userinfo"))
    except Unauthenticated as error:
        return wrong("token", error.message, "the gateway does not accept your login", f"postern login {used.api_url}")
    except PosternError as error:
        return wrong("token", error.message, "its validity is unknown", f"postern login {used.api_url}")
    end = who.get("login_expires_at")
    return ok("token", f"valid, as {who['email']}" + (f", until {end}" if end else ""))


def _ports(used: Profile, token: Secret) -> list[DoctorFinding]:
    try:
        with Http(used.api_url, token, authority=used.authority or None, timeout=PATIENCE) as http:
            info = cast(ServerInfo, http.call("GET", "/serverinfo"))
    except PosternError:  # the check of the token reports why
        return []
    findings = _version(info["version"])
    # As `postern connect` does: the CA that the gateway names is trusted only if the answer came over a trusted
    # connection.
    authority = used.authority or info["ca_certificate"] or ""
    tunnel, control = ProbeAddress.of(info["tunnel_url"], authority), ProbeAddress.of(info["grpc_url"], authority)
    findings += sockets.check_websocket("tunnel port", tunnel, token)[0]
    return [*findings, *sockets.reachable("control port", control, ["h2"])]


def _agents(used: Profile, token: Secret) -> list[DoctorFinding]:
    """Check for offline agents with connections that this user can see."""
    try:
        with Http(used.api_url, token, authority=used.authority or None, timeout=PATIENCE) as http:
            agents = http.all("/agents")
            waiting = http.all("/connections", query={"status": "offline"})
    except PosternError:  # the check of the token reports why
        return []
    findings = [
        finding
        for agent in agents
        if agent["status"] == "DISCONNECTED"
        for finding in doctor_agents.offline(
            agent["name"],
            agent["mode"],
            [connection["name"] for connection in waiting if connection["agent_id"] == agent["id"]],
        )
    ]
    return findings or ok("agents", "all are connected" if agents else "there are no agents; no target can be reached")


def _version(gateway_version: str) -> list[DoctorFinding]:
    if gateway_version == __version__:
        return ok("version", f"{__version__}, like the gateway")
    what = f"this is {__version__}, the gateway is {gateway_version}"
    return warning(
        "version",
        what,
        "the newer one can use features that the older one lacks",
        f"install version {gateway_version} on this machine",
    )


def _proxies(environ: Mapping[str, str]) -> list[DoctorFinding]:
    variables = [name for name in _PROXIES if environ.get(name) or environ.get(name.lower())]
    if not variables:
        return ok("proxies", "none in the environment")
    what = f"{', '.join(variables)} is set"
    why = "requests to the API use that proxy, and tunnels do not: one can work without the other"
    return warning("proxies", what, why, "set NO_PROXY to the gateway's host name, or unset it")


def _local_port(port: int) -> list[DoctorFinding]:
    try:
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(("127.0.0.1", port))
    except OSError as error:
        what = f"local port {port} cannot be used: {error.strerror}"
        return wrong("local port", what, "`postern connect --port` listens there", "postern connect NAME --port 0")
    return ok("local port", f"port {port} is free" if port else "there are free ports")
