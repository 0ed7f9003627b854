"""Applications that others have written, on free ports: Jupyter, Django's administration, Prometheus, a chat.

`scripts/install-services http-applications` gets those of PyPI and npm, in a folder of their own.
"""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, BrowserContext, sync_playwright
from tests.support.clients import need
from tests.support.gateway import Gateway
from tests.support.http_gateway import http_connection, login_of
from tests.support.installed_tools import installed_tool
from tests.support.postgres import free_port
from tests.support.promises import wait_until

from postern.domain.identity.credential import Issued
from postern.domain.sessions.session import Session, SessionStatus
from postern.errors import Conflict

PROGRAMS = Path(__file__).parents[1] / "e2e" / "drivers" / "http_applications"
JUPYTER_TOKEN = "only-for-this-test"
_QUIET = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]


class GatewayHost:
    """A connection to an application, with a host of its own, and somebody's credential of it."""

    def __init__(self, gateway: Gateway, name: str, url: str, **fields: Any) -> None:
        self.gateway = gateway
        self.name = name
        self.connection = http_connection(gateway, name, url, **fields)
        self.issued: Issued = gateway.credential(name)
        self.login = login_of(self.issued)
        self.port = gateway.settings.httpproxy_port
        self.host = f"{name}.localhost:{self.port}"
        self.url = f"http://{self.host}"

    def context(self, browser: Browser) -> BrowserContext:
        """Return a context of a browser that has logged in: it has the cookie."""
        context = browser.new_context()
        context.set_default_timeout(60_000)
        context.add_cookies([{"name": "postern", "value": ".".join(self.login), "url": self.url, "httpOnly": True}])
        return context

    def client(self, **more: Any) -> httpx.Client:
        """Return a client that needs no resolver that knows the host. `Authorization` is the application's."""
        credential = base64.b64encode(":".join(self.login).encode()).decode()
        headers = {"Host": self.host, "Postern-Authorization": f"Basic {credential}", **more.pop("headers", {})}
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers, timeout=60, **more)

    def sessions(self) -> list[Session]:
        return self.gateway.sessions(connection=self.name)

    def kill_open_sessions(self) -> bool:
        """Return whether there were any."""
        gateway = self.gateway
        still = [session for session in self.sessions() if session.status is SessionStatus.OPEN]
        for session in still:
            with suppress(Conflict):  # it has ended meanwhile
                gateway.call(gateway.services.sessions.kill(gateway.admin, session.id))
        return bool(still)

    def recorded(self) -> str:
        """Return what the recordings of all its sessions show, after these have been killed, also those that clients
        opened because of that."""
        wait_until(lambda: not self.kill_open_sessions() or None, every=0.5)
        return "\n".join([self.gateway.text(session.id) for session in self.sessions()])


@contextmanager
def chromium() -> Iterator[Browser]:
    program = need("chromium", "chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=_QUIET)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def running_program(words: list[str], folder: Path, ready: str, **environment: str) -> Iterator[None]:
    """Run a program until the end of the block. It runs when `ready` can be read. Its processes end with it."""
    log = folder / "log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            words, env=_environment(environment), cwd=folder, stdout=output, stderr=output, start_new_session=True
        )

    def is_ready() -> bool | None:
        assert process.poll() is None, log.read_text(errors="replace")
        with suppress(httpx.HTTPError):
            return httpx.get(ready, timeout=5).status_code < 500 or None
        return None

    try:
        wait_until(is_ready)
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DJANGO", "JUPYTER"))}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", **more}


@contextmanager
def running_jupyter(folder: Path) -> Iterator[str]:
    """JupyterLab with a kernel of Python; its own login is JUPYTER_TOKEN."""
    packages = installed_tool("http-applications")
    port = free_port()
    own = {name: str(folder / name.lower()) for name in ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR")}
    own |= {"JUPYTER_DATA_DIR": str(folder / "data"), "IPYTHONDIR": str(folder / "ipython")}
    own |= {"JUPYTER_PATH": str(packages / "share" / "jupyter"), "PYTHONPATH": str(packages)}
    for place in own.values():
        Path(place).mkdir(parents=True, exist_ok=True)
    notebooks = folder / "notebooks"
    notebooks.mkdir()
    words = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1"]
    words += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={JUPYTER_TOKEN}"]
    words += [f"--ServerApp.root_dir={notebooks}", f"--LabApp.app_dir={packages / 'share' / 'jupyter' / 'lab'}"]
    words += ["--LabApp.extension_manager=readonly", "--LabApp.news_url=None"]
    url = f"http://127.0.0.1:{port}"
    with running_program(words, folder, f"{url}/api", **own):
        yield url


@contextmanager
def running_django(folder: Path) -> Iterator[str]:
    packages = installed_tool("http-applications")
    port = free_port()
    words = [sys.executable, str(PROGRAMS / "django_accounts.py"), str(folder), str(port)]
    url = f"http://127.0.0.1:{port}"
    with running_program(words, folder, f"{url}/admin/login/", PYTHONPATH=str(packages)):
        yield url


@contextmanager
def running_chat(folder: Path) -> Iterator[str]:
    packages = installed_tool("http-applications")
    port = free_port()
    words = [sys.executable, str(PROGRAMS / "socketio_chat.py"), str(port), str(packages / "node" / "node_modules")]
    url = f"http://127.0.0.1:{port}"
    with running_program(words, folder, url, PYTHONPATH=str(packages)):
        yield url


@contextmanager
def running_prometheus(folder: Path) -> Iterator[str]:
    """Prometheus, which watches itself."""
    program = need("prometheus", "prometheus")
    port = free_port()
    settings = folder / "prometheus.yml"
    settings.write_text(
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: itself, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]\n"
    )
    words = [program, f"--config.file={settings}", f"--storage.tsdb.path={folder / 'data'}"]
    words += [f"--web.listen-address=127.0.0.1:{port}"]
    url = f"http://127.0.0.1:{port}"

    def has_value() -> bool:
        return bool(httpx.get(f"{url}/api/v1/query", params={"query": "up"}).json()["data"]["result"])

    with running_program(words, folder, f"{url}/-/ready"):
        wait_until(lambda: has_value() or None)
        yield url
