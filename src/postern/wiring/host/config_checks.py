"""Checks of a configuration without starting anything: all problems at once. Nothing is created, and no other machine
is asked."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509

from postern.agent import agent_policy
from postern.domain.targets.agent import AgentKey
from postern.errors import Misconfigured
from postern.integrations.identity.identity_addresses import networks_of
from postern.services.server.metrics import check_token
from postern.settings import PORTS, AgentSettings, Settings, resolve
from postern.settings_values import Resolved, SettingOrigin, variable_of
from postern.store.database import parse_url
from postern.store.signals import check_socket_path
from postern.wiring import masters_wiring, paths, tls
from postern.wiring.app import anchors, git_fetcher
from postern.wiring.auth_settings_wiring import default_auth
from postern.wiring.blobs import open_blobs
from postern.wiring.processes.machine_processes import check_processes

_NETWORKS = ("provider_networks", "sink_networks", "runbook_networks", "tracker_networks")


def read(environ: Mapping[str, str], flags: Mapping[str, object]) -> tuple[Resolved, Resolved, list[Misconfigured]]:
    """Return the values of the gateway's settings and of an agent's, and all problems. Raises Misconfigured if the file
    cannot be read as a whole."""
    gateway = resolve(Settings, environ, flags)
    agent = resolve(AgentSettings, environ, flags)
    problems = [*gateway.problems, *agent.problems]
    problems += _find_problems(_checks(Settings(**gateway.values)), problems)
    problems += _find_problems(_agent_checks(AgentSettings(**agent.values)), problems)
    unique = {problem.message: problem for problem in problems}
    return gateway, agent, [_with_place(problem, gateway.origins, agent.origins) for problem in unique.values()]


def _find_problems(checks: Mapping[str, Callable[[], object]], known: list[Misconfigured]) -> Iterator[Misconfigured]:
    """Yield the problems of the checks whose settings have none yet; `checks` are by the setting that they are
    about."""
    wrong = {problem.field for problem in known}
    for field, check in checks.items():
        if field in wrong:
            continue
        try:
            check()
        except Misconfigured as error:
            if error.field not in wrong:
                yield Misconfigured(error.message, field=error.field or field)


def _checks(settings: Settings) -> dict[str, Callable[[], object]]:
    return {
        "home": lambda: check_socket_path(paths.signals_socket(settings)),
        "workers": lambda: check_processes(settings),
        "database_url": lambda: parse_url(settings.url),
        "trusted_proxies": lambda: settings.proxies,
        **{name: functools.partial(networks_of, getattr(settings, name), variable_of(name)) for name in _NETWORKS},
        **{f"port {name}": functools.partial(_check_port, settings, name) for name in _ports(settings)},
        "log_file": lambda: _check_folder("log_file", settings.log_file),
        "tls_cert": lambda: _check_certificate(settings),
        "httpproxy_domain": lambda: tls.app_domain(settings),
        "httpproxy_tls_cert": lambda: (files := tls.host_files(settings)) and files.load(),
        "tls_ca": lambda: _check_authority("tls_ca", settings.tls_ca),
        "acme_ca": lambda: _check_authority("acme_ca", settings.acme_ca),
        "metrics_token": lambda: check_token(settings.metrics_token),
        "auth_method": lambda: default_auth(settings),
        "runbook_ca": lambda: git_fetcher(settings, os.environ),
        "anchor_file": lambda: anchors(settings),
        "recordings_url": lambda: open_blobs(settings),
        "saml_metadata_url": lambda: _check_url("saml_metadata_url", settings.saml_metadata_url),
        "oidc_issuer": lambda: _check_url("oidc_issuer", settings.oidc_issuer),
        "master_key": lambda: settings.master_key and masters_wiring.master_of(settings.master_key),
        "master_key_old": lambda: (
            settings.master_key_old and masters_wiring.master_of(settings.master_key_old, "master_key_old")
        ),
    }


def _agent_checks(settings: AgentSettings) -> dict[str, Callable[[], object]]:
    return {
        "key": lambda: settings.key and AgentKey.read(settings.key),
        "agent_policy": lambda: settings.agent_policy and agent_policy.read(Path(settings.agent_policy)),
    }


def _ports(settings: Settings) -> list[str]:
    return [*PORTS, *(("acme_http_port",) if settings.acme_directory else ())]


def _check_port(settings: Settings, name: str) -> None:
    """Raises Misconfigured if an earlier setting has the same port."""
    port, names = getattr(settings, name), _ports(settings)
    for other in names[: names.index(name)]:
        if port and port == getattr(settings, other):
            raise Misconfigured(
                f"{variable_of(name)}: port {port} is also that of {variable_of(other)}; choose different ones",
                field=name,
            )


def _check_certificate(settings: Settings) -> None:
    tls.check_source(settings)
    if settings.tls_cert:
        tls.material(settings).load()


def _check_authority(name: str, file: str) -> None:
    if not file:
        return
    try:
        x509.load_pem_x509_certificates(Path(file).read_bytes())
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it contains no certificate in PEM form"
        raise Misconfigured(f"{variable_of(name)}: {file} cannot be used: {why}", field=name) from None


def _check_folder(name: str, file: str) -> None:
    if file and not Path(file).absolute().parent.is_dir():
        raise Misconfigured(
            f"{variable_of(name)}: the folder {Path(file).absolute().parent} does not exist; create it", field=name
        )


def _check_url(name: str, url: str) -> None:
    if not url:
        return
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("https", "http") and bool(parts.hostname)
    except ValueError:
        is_web = False
    if not is_web:
        raise Misconfigured(
            f"{variable_of(name)}: {url!r} is not an address such as https://login.example.com", field=name
        )


def _with_place(problem: Misconfigured, *origins: Mapping[str, SettingOrigin]) -> Misconfigured:
    """Return the problem with the place in the file where its setting has its value."""
    field = (problem.field or "").removeprefix("port ")
    origin = next((each[field] for each in origins if field in each), SettingOrigin("default"))
    message = problem.message
    if origin.kind == "file" and not message.startswith(origin.name.partition(" (")[0]):
        message = f"{origin.name}: {message}"
    return Misconfigured(message, field=field)
