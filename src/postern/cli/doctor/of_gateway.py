"""Checks of the gateway's own machine: its data folder, store, keys, ports and certificate. The gateway can run
meanwhile."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from datetime import UTC, datetime
from pathlib import Path

from postern.cli.doctor import doctor_agents, open_files, sockets
from postern.cli.doctor.finding import RESTART, Check, DoctorFinding, FindingState, ok, warning, wrong
from postern.cli.doctor.sockets import ProbeAddress
from postern.errors import PosternError
from postern.settings import PORTS, Settings
from postern.wiring import recordings_wiring
from postern.wiring.host import checks as wiring

_START = "postern gateway"
_APPS = "see docs/how-to/http-applications.md, or ignore this if users open no applications in a browser"
FEW = 2 << 30  # free bytes below which there is a warning
_BEHIND = 600.0  # seconds that a sealed segment can wait for the archiver
_MOST_SHOWN = 5
_PRIVATE = (
    "keys",
    "tls/ca.key",
    "tls/server.key",
    "keys/ssh_host_ed25519.key",
    "postern.db",
    "first-run.json",
    "run",
    "spool",
    "sealed",
    "recordings",
)


def checks(settings: Settings) -> dict[str, Check]:
    if not settings.home.is_dir():
        what = f"the data folder {settings.home} does not exist"
        do = f"{_START} --home FOLDER, or POSTERN_HOME=FOLDER postern doctor --gateway"
        return {"data folder": lambda: wrong("data folder", what, "it contains all data of a gateway", do)}
    running = wiring.is_running(settings)
    return {
        "data folder": lambda: _modes(settings.home),
        "disk": lambda: _disk(settings),
        "store": lambda: _store(settings),
        "master key": lambda: _master(settings),
        "certificate": lambda: _certificate(settings),
        "applications": lambda: _applications(settings),
        "ports": lambda: _ports(settings, running),
        "agents": lambda: _agents(settings, running),
        "open files": lambda: _open_files(settings, running),
        "spool": lambda: _spool(settings.home, running),
        "archiver": lambda: _archiver(settings, running),
        "blob store": lambda: _blob_store(settings),
    }


def _modes(home: Path) -> list[DoctorFinding]:
    open_ = [path for path in (home, *(home / name for name in _PRIVATE)) if path.exists() and _is_open(path)]
    why = "it contains keys and recordings: a user who reads them can read every secret"
    findings = [
        finding
        for path in open_
        for finding in wrong(
            "data folder",
            f"{path} is open to other users (mode {stat.S_IMODE(path.stat().st_mode):04o})",
            why,
            f"chmod {'700' if path.is_dir() else '600'} {path}",
        )
    ]
    if home.stat().st_uid != os.geteuid():
        what = f"{home} belongs to a different user"
        findings += warning("data folder", what, "private files cannot be checked", "run this as the gateway's user")
    return findings or ok("data folder", f"only its owner can open {home}")


def _is_open(path: Path) -> bool:
    """Check files in a closed folder, too: a backup could copy them elsewhere with their mode."""
    return bool(stat.S_IMODE(path.stat().st_mode) & (0o077 if path.is_dir() or path.suffix == ".key" else 0o007))


def _disk(settings: Settings) -> list[DoctorFinding]:
    home = settings.home
    free = shutil.disk_usage(home).free
    what = f"{free / (1 << 30):.1f} GiB are free in {home}"
    why = "without space for recordings no session starts, and running sessions end"
    do = (
        f"check du -sh {home}/*, and free space; do not touch {home}/spool and sealed, where running sessions "
        "are recorded"
    )
    if free < settings.recording_least_free:
        return wrong("disk", what, why, do)
    return warning("disk", what, why, do) if free < FEW else ok("disk", what)


def _store(settings: Settings) -> list[DoctorFinding]:
    try:
        current = wiring.is_migrated(settings)
    except PosternError as error:
        return wrong(
            "store", error.message, "no client can connect without it", "check POSTERN_DATABASE_URL and its server"
        )
    if not current:
        what = "the store's schema belongs to a different version"
        do = f"if this gateway is newer, {_START}: the start migrates it; otherwise install the version that wrote it"
        return wrong("store", what, "an older or newer gateway wrote it", f"{do}; {RESTART}")
    return ok("store", "it answers, and has this version's schema")


def _master(settings: Settings) -> list[DoctorFinding]:
    try:
        return ok("master key", wiring.check_master(settings))
    except (PosternError, OSError) as error:
        text = error.message if isinstance(error, PosternError) else str(error)
        why = "without it no secret can be decrypted; it cannot be replaced"
        return wrong("master key", text, why, "restore it from your backup; see docs/how-to/encryption-keys.md")


def _certificate(settings: Settings) -> list[DoctorFinding]:
    do = _how_to_renew(settings)
    try:
        end = wiring.certificate_end(settings)
    except (OSError, ValueError) as error:
        return wrong("certificate", f"it cannot be read: {error}", "no TLS port opens without it", do)
    if end is None:
        return ok("certificate", "none yet; the first start creates one")
    left = (end - datetime.now(UTC)).total_seconds()
    what, why = f"valid until {end:%Y-%m-%d}", "clients, agents and tunnels reject an expired certificate"
    if left < sockets.SOON:
        return (wrong if left <= 0 else warning)("certificate", what, why, do)
    if problem := wiring.acme_problem(settings):
        return warning("certificate", f"{what}, but {problem}", "the certificate is not renewed", do)
    return ok("certificate", what)


def _applications(settings: Settings) -> list[DoctorFinding]:
    """Return whether browsers reach the hosts of HTTP applications, and accept their certificate."""
    try:
        problem, host = wiring.apps_problem(settings), wiring.apps_host(settings)
    except (PosternError, OSError, ValueError) as error:
        text = error.message if isinstance(error, PosternError) else str(error)
        return wrong("applications", text, "browsers cannot open applications", _APPS)
    if problem:
        return warning("applications", problem, "browsers reject the hosts of applications", _APPS)
    if not host:
        return ok("applications", "browsers on this machine find the hosts below localhost by themselves")
    try:
        socket.getaddrinfo(host, None)
    except OSError as error:
        what = f"the name {host} is not known: {error.strerror or error}"
        return warning("applications", what, "browsers cannot find applications without a wildcard in DNS", _APPS)
    return ok("applications", f"{host.partition('.')[2]} is in DNS, and the certificate is valid for its hosts")


def _how_to_renew(settings: Settings) -> str:
    if settings.tls_cert:
        return "replace the files of POSTERN_TLS_CERT and POSTERN_TLS_KEY; a running gateway reads them by itself"
    if settings.acme_directory:
        return "fix what the ACME server reports; kill -HUP of the gateway's process tries again at once"
    return f"{_START}: a running gateway renews it by itself; check the log of its archiver"


def _ports(settings: Settings, running: bool) -> list[DoctorFinding]:
    findings: list[DoctorFinding] = []
    for name in PORTS:
        port = getattr(settings, name)
        if not port:  # chosen at each start, or no listener
            continue
        findings += _answers(settings.host, port, name) if running else _is_free(settings.host, port, name)
    if not running:
        findings += warning("gateway", "the gateway is not running", "no client can connect", _START)
    return findings or ok("ports", "chosen at each start")


def _answers(host: str, port: int, name: str) -> list[DoctorFinding]:
    nearby = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    [finding] = sockets.reachable("ports", ProbeAddress(nearby, port, False))
    if finding.state is FindingState.OK:
        return [finding]
    what = f"a gateway is running, but nothing answers at its {name} {port}"
    return wrong(
        "ports",
        what,
        "clients of this port cannot connect",
        f"check the gateway's log; POSTERN_{name.upper()} sets the port",
    )


def _is_free(host: str, port: int, name: str) -> list[DoctorFinding]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((host, port))
    except OSError as error:
        what = f"the {name} {port} of {host} cannot be used: {error.strerror}"
        return wrong("ports", what, "the gateway does not start", f"{_START} --{name.replace('_', '-')} OTHER")
    return ok("ports", f"{name} {port} is free")


def _agents(settings: Settings, running: bool) -> list[DoctorFinding]:
    if not running:
        return ok("agents", "no agent can be connected while the gateway is not running")
    offline_agents = wiring.offline_agents(settings)
    return [finding for agent in offline_agents for finding in doctor_agents.offline(*agent)] or ok(
        "agents", "all are connected"
    )


def _open_files(settings: Settings, running: bool) -> list[DoctorFinding]:
    if not running:
        return open_files.check_hard_limit("the gateway is started")
    processes = wiring.open_files(settings)
    if not processes:
        return warning(
            "open files",
            "no process reports how many files are open",
            "the processes may be unresponsive",
            "check the gateway's log",
        )
    name, (count, limit) = max(processes.items(), key=lambda entry: entry[1][0] / entry[1][1])
    what = f"{name} has {count} of {limit} open, closest to its limit"
    if limit < open_files.FEW or count > open_files.MANY * limit:
        return warning("open files", what, open_files.WHY, open_files.DO)
    return ok("open files", what)


def _spool(home: Path, running: bool) -> list[DoctorFinding]:
    left = sorted((home / "spool").glob("*/*.rec"))
    if running or not left:
        return ok(
            "spool", f"{len(left)} recordings are being written" if left else "there are no unfinished recordings"
        )
    names = ", ".join(str(path.relative_to(home)) for path in left[:_MOST_SHOWN])
    more = f" and {len(left) - _MOST_SHOWN} more" if len(left) > _MOST_SHOWN else ""
    what = f"{len(left)} recordings are unfinished: {names}{more}"
    return warning("spool", what, "a crash interrupted their sessions", f"{_START}: the start seals them")


def _archiver(settings: Settings, running: bool) -> list[DoctorFinding]:
    waiting = recordings_wiring.waiting_for_archiver(settings.home)
    count = waiting.segments
    if running and recordings_wiring.archiver_silence(settings.home) > recordings_wiring.ARCHIVER_LATE:
        why = "recordings stay on this machine's disk and fill it; reports, sinks and the ledger are not updated"
        return wrong("archiver", "it has sent no heartbeat for minutes", why, "check the gateway's log for the reason")
    trouble = recordings_wiring.archiver_trouble(settings.home) if running else ""
    if count and (trouble or waiting.age > _BEHIND):
        what = f"{count} sealed segments wait, the oldest for {waiting.age / 60:.0f} minutes"
        what += f": {trouble}" if trouble else ""
        why = "recordings stay on this machine's disk until they can be stored"
        do = "check the gateway's log for messages of the archiver" if running else _START
        return warning("archiver", what, why, do)
    return ok("archiver", f"{count} sealed segments wait to be stored" if count else "every sealed segment is stored")


def _blob_store(settings: Settings) -> list[DoctorFinding]:
    try:
        return ok("blob store", f"{wiring.ask_blob_store(settings)} answers; {_describe_encryption(settings)}")
    except PosternError as error:
        why = "recordings cannot be stored there, and those that are stored cannot be read"
        do = "fix POSTERN_RECORDINGS_URL or its credentials; see docs/how-to/keep-recordings-elsewhere.md"
        return wrong("blob store", error.message, why, do)


def _describe_encryption(settings: Settings) -> str:
    try:
        return f"recordings are encrypted, under the master key {wiring.check_master(settings)}"
    except PosternError:  # the master key has its own check
        return "recordings are encrypted"
