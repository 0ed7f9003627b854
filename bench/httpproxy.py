"""Measures HTTP clients through a gateway, beside a direct connection, nginx as a reverse proxy and a bare forwarder.

    python -m bench.httpproxy                  # about 10 minutes; --quick: one short round, about two minutes

Small requests by wrk with 1, 8 and 32 connections, and a large download of JSON by curl. The target is nginx with
files. All is on one machine; the routes take turns, medians count. Each request of wrk has a path of its own, so no
cache of whole requests can help. At last, what masking costs in one process: bodies of responses, in MB/s of processor
time.
`scripts/install-services nginx wrk curl` installs what it needs (Debian packages: nginx-light, wrk, curl).
"""

from __future__ import annotations

import base64
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import click
from bench.gateway import BenchGateway, settle
from bench.masking import SHAPES, Shape
from bench.processes import cpu_seconds
from bench.ratios import Ratios
from bench.rules import TEXT
from tests.support.postgres import free_port

from bench import machine
from postern.domain.rules.masking import DEFAULT_TYPES, MaskingRule, Strategy
from postern.inspection.masking.masking_interceptor import Masking
from postern.interception.pipeline import Interceptor, Pipeline, SessionView
from postern.protocols.http import http_frames as m
from postern.protocols.http.http_heads import RequestHead, ResponseHead
from postern.protocols.http.wire.http_wire import HttpWire
from postern.protocols.httpproxy.httpproxy_dialect import HttpproxyDialect
from postern.protocols.httpproxy.spec import HTTPPROXY
from postern.protocols.wire_base import Side
from postern.relay.link import Link

CLIENTS = (1, 8, 32)
LARGE, QUICK_LARGE = 256 << 20, 32 << 20  # bytes of the download, at least
BLOCK = 1 << 20  # bytes of a body that is masked
_FOLDER = Path(__file__).resolve().parent
_NEEDED = ("nginx", "wrk", "curl")
_PATHS = """
local number = 0
request = function()
    number = number + 1
    return wrk.format(nil, wrk.path .. "?page=" .. number)
end
"""
_UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}

_COMMON = """
daemon off; master_process off; worker_processes 1; pid {folder}/{name}.pid; error_log {folder}/{name}.log;
events {{ worker_connections 1024; }}
http {{
    access_log off; keepalive_requests 1000000000; sendfile on; client_body_temp_path {folder}/{name}-body;
    proxy_temp_path {folder}/{name}-proxy; fastcgi_temp_path {folder}/f;
    uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    {content}
}}
"""
_TARGET = "server {{ listen 127.0.0.1:{port}; default_type application/json; root {folder}/files; }}"
_PROXY = """
    upstream target {{ server 127.0.0.1:{target}; keepalive 64; keepalive_requests 1000000000; }}
    server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://target; proxy_http_version 1.1;
        proxy_set_header Connection ""; proxy_max_temp_file_size 0; }} }}
"""


@dataclass(frozen=True, slots=True)
class Route:
    """How clients come in. `pid` is the process in between, None for the direct way."""

    name: str
    port: int
    authorization: str = ""
    pid: int | None = None

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    @property
    def headers(self) -> list[str]:
        return ["-H", f"Authorization: {self.authorization}"] if self.authorization else []


def small_requests(route: Route, table: Ratios, seconds: int, script: Path) -> None:
    for clients in CLIENTS:
        settle()
        began = cpu_seconds(route.pid) if route.pid else 0.0
        words = ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s", "--latency", "-s", str(script), *route.headers]
        words.append(route.url("small.json"))
        printed = _run(words, route)
        what = f"{clients} client{'' if clients == 1 else 's'}"
        count = float(_field(r"(\d+) requests in", printed))
        table.add(f"{what}: requests/s", route.name, float(_field(r"Requests/sec:\s+([\d.]+)", printed)))
        for percentile in ("50", "99"):
            number, unit = re.findall(rf"{percentile}%\s+([\d.]+)(us|ms|s)", printed)[0]
            table.add(f"{what}: p{percentile}, µs", route.name, float(number) * _UNITS[unit])
        if route.pid:
            spent = (cpu_seconds(route.pid) - began) * 1e6 / count
            table.add(f"{what}: processor time of the proxy, µs a request", route.name, spent)


def download(route: Route, table: Ratios, least: int) -> None:
    settle()
    words = ["curl", "-sS", "--fail", "-o", "/dev/null", "-w", "%{speed_download} %{size_download}"]
    speed, size = map(float, _run([*words, *route.headers, route.url("large.json")], route).split())
    if size < least:
        raise RuntimeError(f"{route.name}: {size:.0f} bytes instead of at least {least}")
    table.add("a download of JSON: MB/s", route.name, speed / 1e6)


def _run(words: list[str], route: Route) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode or "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        raise RuntimeError(f"{words[0]} failed by {route.name}: {done.stderr[-500:]}{done.stdout[-1000:]}")
    return done.stdout


def _field(pattern: str, printed: str) -> str:
    found = re.search(pattern, printed)
    if found is None:
        raise RuntimeError(f"wrk printed something else: {printed[-1000:]}")
    return found.group(1)


def bodies(shape: Shape) -> dict[str, tuple[str, bytes]]:
    """Bodies of responses that have these values: content type and bytes, by what they are called."""
    rows: list[dict[str, str]] = []
    size = 0
    while size < BLOCK:
        rows.append({f"c{place}": make() for place, (_, make) in enumerate(shape)})
        size += sum(len(text) + 8 for text in rows[-1].values())
    cells = ("".join(f"<td>{text}</td>" for text in row.values()) for row in rows)
    page = "<html><body><table>" + "".join(f"<tr>{row}</tr>\n" for row in cells) + "</table></body></html>"
    return {
        "JSON": ("application/json", json.dumps(rows).encode()),
        "NDJSON": ("application/x-ndjson", "".join(json.dumps(row) + "\n" for row in rows).encode()),
        "HTML": ("text/html; charset=utf-8", page.encode()),
    }


def masked_speed(interceptors: Callable[[], list[Interceptor]], content_type: str, body: bytes) -> float:
    """MB of a body per second of processor time, through the wire."""
    view = SessionView(UUID(int=0), "ann", frozenset(), "shop", "application", "httpproxy", {})
    link = Link(HttpWire(HttpproxyDialect(1 << 20)), Pipeline(interceptors(), view), lambda: 0)
    request = m.request_frame(1, RequestHead("GET", "/customers", "shop.internal"))
    link.receive(Side.CLIENT, request + m.end_frame(m.REQUEST_END, 1))
    head = ResponseHead(200, ((b"content-type", content_type.encode()),), len(body))
    stream = m.response_frame(1, head) + m.data_frames(m.RESPONSE_DATA, 1, body) + m.end_frame(m.RESPONSE_END, 1)
    began = time.process_time()
    for at in range(0, len(stream), 64 * 1024):
        link.receive(Side.TARGET, stream[at : at + 64 * 1024])
    return len(body) / 1e6 / (time.process_time() - began)


def masking(rounds: int) -> None:
    columns = MaskingRule(UUID(int=1), UUID(int=2), "own", columns=("c0", "c1"), strategy=Strategy.PARTIAL)
    ways: dict[str, Callable[[], list[Interceptor]]] = {
        "nothing": list,
        "default types": lambda: [Masking(DEFAULT_TYPES)],
    }
    if HTTPPROXY.dialect is not None and HTTPPROXY.dialect.lineage is not None:
        lineage = HTTPPROXY.dialect.lineage()
        ways["two fields"] = lambda: [Masking(frozenset(), [columns], bytes(32), lineage(lambda: None))]
    print(f"\n{'MB/s of bodies, one core':58}" + "".join(f"{way:>15}" for way in ways))
    for name, shape in SHAPES.items():
        if not name.startswith(("clean", "ordinary", "dense")):
            continue
        for form in ("JSON", "NDJSON", "HTML"):
            medians = [
                statistics.median(masked_speed(way, *bodies(shape)[form]) for _ in range(rounds))
                for way in ways.values()
            ]
            print(f"{form + ', ' + name:58}" + "".join(f"{median:>15.0f}" for median in medians))


@click.command(help=__doc__)
@click.option("--rounds", type=click.IntRange(1), default=3)
@click.option("--seconds", type=click.IntRange(1), default=4)
@click.option("--quick", is_flag=True)
@click.option("--only", type=click.Choice(["routes", "masking"]))
def main(rounds: int, seconds: int, quick: bool, only: str | None) -> None:
    if quick:
        rounds, seconds = 1, 1
    if not machine.is_compiled():
        print("The hot path is not compiled here; `POSTERN_COMPILE=1 pip install .` says why.", file=sys.stderr)
    if only != "masking":
        missing = [name for name in _NEEDED if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
        if missing:
            raise click.ClickException(f"{', '.join(missing)} missing; run `scripts/install-services nginx wrk curl`")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
        with ExitStack() as stack:
            large = QUICK_LARGE if quick else LARGE
            folder = Path(tempfile.mkdtemp(prefix="bench-http-", dir="/tmp"))
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            _files(folder, large)
            routes, table = _routes(stack, folder), Ratios()
            for _ in range(rounds):
                for route in routes:
                    small_requests(route, table, seconds, folder / "paths.lua")
                for route in routes:
                    download(route, table, large)
            print("\n".join(table.lines([route.name for route in routes])))
    if only != "routes":
        masking(rounds)


def _nginx(stack: ExitStack, folder: Path, name: str, content: str, **values: object) -> tuple[int, int]:
    """Start an nginx with this content; return its port and process id."""
    port = free_port()
    filled = content.format(folder=folder, port=port, **values)
    file = folder / f"{name}.conf"
    file.write_text(_COMMON.format(folder=folder, name=name, content=filled))
    process = subprocess.Popen(["/usr/sbin/nginx", "-p", str(folder), "-c", str(file)])
    stack.callback(process.wait)
    stack.callback(process.terminate)
    time.sleep(0.5)
    if process.poll() is not None:
        raise RuntimeError(f"nginx did not start: {(folder / f'{name}.log').read_text()[-1000:]}")
    return port, process.pid


def _forwarder(stack: ExitStack, target: int) -> tuple[int, int]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-P", str(_FOLDER / "forwarder.py"), str(port), str(target)])
    stack.callback(process.wait)
    stack.callback(process.terminate)
    time.sleep(0.5)
    return port, process.pid


def _files(folder: Path, large: int) -> None:
    files = folder / "files"
    files.mkdir()
    rows = [{"id": number, "name": f"customer {number}", "city": "Utrecht"} for number in range(20)]
    (files / "small.json").write_text(json.dumps(rows))
    (folder / "paths.lua").write_text(_PATHS)
    page = ",\n".join(json.dumps(row) for row in rows * 1000)
    with (files / "large.json").open("w") as file:
        file.write("[" + page)
        while file.tell() < large:
            file.write(",\n" + page)
        file.write("]")
    for part in (folder, files, *files.iterdir()):  # nginx's worker may have given up root
        part.chmod(0o755)


def _routes(stack: ExitStack, folder: Path) -> list[Route]:
    target, _ = _nginx(stack, folder, "target", _TARGET)
    proxy, proxy_pid = _nginx(stack, folder, "proxy", _PROXY, target=target)
    passing, passer = _forwarder(stack, target)
    gateway = BenchGateway()
    stack.callback(gateway.stop)
    secret = {"REMOTE_URL": f"http://127.0.0.1:{target}"}
    made = {
        name: gateway.connection(name, secret, type="application", subtype="httpproxy", redact_enabled=name == "masked")
        for name in ("plain", "words", "masked")
    }
    gateway.guardrail("words", TEXT, made["words"])

    def postern(title: str, name: str) -> Route:
        user, password = gateway.credential(name)
        basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        return Route(title, gateway.settings.httpproxy_port, f"Basic {basic}", gateway.worker_pid)

    return [
        Route("direct", target),
        Route("bare forwarder", passing, pid=passer),
        Route("nginx", proxy, pid=proxy_pid),
        postern("Postern", "plain"),
        postern("Postern, guardrail", "words"),
        postern("Postern, masking", "masked"),
    ]


if __name__ == "__main__":
    main()
