"""Measures SSH clients through a gateway, beside OpenSSH without one and `ssh -J` through a plain sshd.

    python -m bench.ssh                  # about 6 minutes; --quick: one round of small files

The real `ssh` and `scp`, and a real sshd as the target. Everything is on one machine, so that each hop takes processor
time from the others; the routes take turns, medians count.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import click
from bench.gateway import BenchGateway
from bench.ratios import Ratios
from tests.support.sshds import Sshd, sshd

from bench import machine

CIPHERS = {"AES-GCM": "aes128-gcm@openssh.com", "AES-CTR": "aes256-ctr"}
_SSHD = {"Subsystem": "sftp internal-sftp", "MaxStartups": 300}
CONNECTS = 10
TOGETHER = 80  # sessions of one person that begin at once; a worker holds 100
STALLED = 10  # sessions whose client reads nothing
ECHOES = 200
_COMMON = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR", "IdentitiesOnly=yes")


Running = subprocess.Popen[bytes]


@dataclass(frozen=True, slots=True)
class Route:
    """`options` are those of `ssh` and of `scp`, `host` is whom both name."""

    name: str
    options: tuple[str, ...]
    host: str
    before: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, program: str, *words: str, cipher: str = CIPHERS["AES-GCM"]) -> float:
        """Seconds that it took. Raises CalledProcessError."""
        began = time.monotonic()
        subprocess.run(
            self._command(program, *words, cipher=cipher),
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**os.environ, **self.environment},
        )
        return time.monotonic() - began

    def start(self, command: str, stdin: int = subprocess.DEVNULL, stdout: int = subprocess.PIPE) -> Running:
        """`ssh` with this command, until it is killed."""
        words = self._command("ssh", self.host, command, cipher=CIPHERS["AES-GCM"])
        return subprocess.Popen(words, stdin=stdin, stdout=stdout, bufsize=0, env={**os.environ, **self.environment})

    def _command(self, program: str, *words: str, cipher: str) -> list[str]:
        options = [word for option in _COMMON for word in ("-o", option)]
        return [*self.before, program, *options, "-c", cipher, *self.options, *words]


def measure(route: Route, table: Ratios, folder: Path, size: int) -> None:
    megabytes = size / 1e6
    source, there, back = folder / "source", folder / "there", folder / "back"
    for name, cipher in CIPHERS.items():
        took = route.run("ssh", route.host, f"cat {source}", cipher=cipher)
        table.add(f"ssh cat, {name}: MB/s", route.name, megabytes / took)
    took = route.run("scp", f"{route.host}:{source}", str(back))
    table.add("scp from the target: MB/s", route.name, megabytes / took)
    took = route.run("scp", str(source), f"{route.host}:{there}")
    table.add("scp to the target: MB/s", route.name, megabytes / took)
    if not (back.read_bytes() == there.read_bytes() == source.read_bytes()):
        raise RuntimeError(f"a file is another one by {route.name}")
    took = sum(route.run("ssh", route.host, "true") for _ in range(CONNECTS))
    table.add("connect and run `true`: ms", route.name, took / CONNECTS * 1000)


def measure_together(route: Route, table: Ratios, count: int) -> None:
    with ThreadPoolExecutor(count) as pool:
        began = time.monotonic()
        list(pool.map(lambda _: route.run("ssh", route.host, "true"), range(count)))
        took = time.monotonic() - began
    table.add(f"{count} at once connect and run `true`: ms each", route.name, took / count * 1000)


def measure_echoes(route: Route, table: Ratios) -> None:
    """One line there and back, alone, beside sessions that stall, and beside a download as well."""
    with ExitStack() as stack:

        def start(command: str, stdin: int = subprocess.DEVNULL, stdout: int = subprocess.PIPE) -> Running:
            client = stack.enter_context(route.start(command, stdin, stdout))
            stack.callback(client.kill)
            return client

        typist = start("cat", stdin=subprocess.PIPE)
        _echo(typist)  # it is connected
        _measure_echoes(typist, table, route, "alone")
        for _ in range(STALLED):
            stalled = start("cat /dev/zero")
            assert stalled.stdout is not None
            stalled.stdout.read(1)  # the rest is read by nobody
        _measure_echoes(typist, table, route, f"beside {STALLED} that stall")
        start("cat /dev/zero", stdout=subprocess.DEVNULL)
        _measure_echoes(typist, table, route, f"beside {STALLED} that stall and a download")


def _measure_echoes(typist: Running, table: Ratios, route: Route, what: str) -> None:
    took = sorted(_echo(typist) for _ in range(ECHOES))
    table.add(f"a line and its echo, {what}: median, ms", route.name, statistics.median(took) * 1000)
    table.add(f"a line and its echo, {what}: 99th percentile, ms", route.name, took[ECHOES * 99 // 100] * 1000)


def _echo(typist: Running) -> float:
    assert typist.stdin is not None
    assert typist.stdout is not None
    began = time.monotonic()
    typist.stdin.write(b"x\n")
    if typist.stdout.readline() != b"x\n":
        raise RuntimeError("a session ended")
    return time.monotonic() - began


@click.command(help=__doc__)
@click.option("--rounds", type=click.IntRange(1), default=3)
@click.option("--quick", is_flag=True)
def main(rounds: int, quick: bool) -> None:
    missing = [name for name in ("ssh", "scp", "sshpass") if shutil.which(name) is None]
    if missing:
        raise click.ClickException(f"install {', '.join(missing)} (Debian packages openssh-client, sshpass)")
    if not machine.is_compiled():
        print("The hot path is not compiled here; `POSTERN_COMPILE=1 pip install .` says why.", file=sys.stderr)
    rounds, size = (1, 50_000_000) if quick else (rounds, 1_000_000_000)
    table = Ratios()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-ssh-")))
        with (folder / "source").open("wb") as file:
            for _ in range(size // 1_000_000):
                file.write(os.urandom(1_000_000))
        routes = _routes(stack, folder)
        for _ in range(rounds):
            for route in routes:
                measure(route, table, folder, size)
                measure_together(route, table, 10 if quick else TOGETHER)
                measure_echoes(route, table)
    print("\n".join(table.lines([route.name for route in routes])))


def _routes(stack: ExitStack, folder: Path) -> Sequence[Route]:
    target, jump = (stack.enter_context(sshd(_made(folder / name), _SSHD)) for name in ("target", "jump"))
    key = folder / "target" / "key"
    host = f"{target.user}@127.0.0.1"
    common = " ".join(f"-o {option}" for option in _COMMON)
    through = f"ssh {common} -i {folder}/jump/key -p {jump.port}"
    gateway = BenchGateway()
    stack.callback(gateway.stop)
    gateway.connection("web", _secret(target, key), type="application", subtype="ssh", access_schema="disabled")
    user, password = gateway.credential("web")
    port = ("-o", f"Port={gateway.settings.ssh_port}")
    return (
        Route("OpenSSH", ("-i", str(key), "-o", f"Port={target.port}"), host),
        Route(
            "through sshd",
            ("-i", str(key), "-o", f"Port={target.port}", "-o", f"ProxyCommand={through} -W %h:%p {host}"),
            host,
        ),
        Route("Postern", port, f"{user}@127.0.0.1", ("sshpass", "-e"), {"SSHPASS": password}),
    )


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _secret(target: Sshd, key: Path) -> Mapping[str, str]:
    return {"HOST": "127.0.0.1", "PORT": str(target.port), "USER": target.user, "PRIVATE_KEY": key.read_text()}


if __name__ == "__main__":
    main()
