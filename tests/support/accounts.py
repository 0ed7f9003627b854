"""What a whole gateway must be able to account for once its sessions have ended, asked for by its public ways only."""

from __future__ import annotations

import json
import tarfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx
from tests.support.promises import wait_until
from tests.support.running import Gateway
from tests.support.witnesses import Seen

PASSWORD = "another long password"


def ok(gateway: Gateway, *arguments: str) -> str:
    done = gateway.run(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def signed_in(gateway: Gateway) -> httpx.Client:
    """Its API, as the first administrator."""
    api = httpx.Client(base_url=f"{gateway.told['api_url']}/api", timeout=120)
    if api.get("/serverinfo").is_server_error:
        raise AssertionError("the API does not serve")
    found = gateway.run("setup", gateway.told["setup_url"], "--password-stdin", stdin=f"{PASSWORD}\n")
    assert found.returncode == 0, found.stderr
    login = api.post("/localauth/login", json={"email": "admin@localhost", "password": PASSWORD})
    assert login.is_success, login.text
    api.headers["Authorization"] = f"Bearer {login.headers['token']}"
    return api


def reach(gateway: Gateway, name: str, port: int, *flags: str) -> None:
    """A connection by the built-in agent to a PostgreSQL of this machine."""
    secrets = {"HOST": "127.0.0.1", "PORT": str(port), "USER": "postgres", "DB": "postgres", "SSLMODE": "disable"}
    given = [part for key, value in secrets.items() for part in ("--env", f"{key}={value}")]
    ok(gateway, "connections", "create", name, "--subtype", "postgres", *given, *flags)


def left_over(gateway: Gateway) -> list[Path]:
    """Files of recordings that have not been stored, and halves of files."""
    home = gateway.home
    found = [*home.glob("spool/*/*"), *home.glob("sealed/*/*/*"), *home.glob("recordings/**/.*")]
    return [path for path in found if path.is_file()]


@dataclass
class Account:
    """Of a gateway at rest: its clients have gone. `folder` is for its export."""

    gateway: Gateway
    api: httpx.Client
    folder: Path

    def settle(self, within: float = 120.0) -> None:
        """Until every session has ended, is stored, and closed in the ledger."""
        wait_until(lambda: not self.gateway.sessions("--status", "open"), within, 0.2)
        self._wait_for_the_archiver(within)
        end = time.monotonic() + within
        while Counter(one["kind"] for one in self._entries("settling"))["closed"] < len(self.sessions):
            assert time.monotonic() < end, "the ledger does not close every session"
            time.sleep(1)

    def _wait_for_the_archiver(self, within: float) -> None:
        """It may have much to do; `within` seconds are the most without any progress."""
        least, end = len(left_over(self.gateway)), time.monotonic() + within
        while found := left_over(self.gateway):
            if len(found) < least:
                least, end = len(found), time.monotonic() + within
            assert time.monotonic() < end, f"not stored: {[str(one) for one in found[:50]]}\n{self.gateway.log[-5000:]}"
            time.sleep(0.2)

    @cached_property
    def sessions(self) -> list[dict[str, Any]]:
        return self.gateway.sessions()

    @cached_property
    def by_name(self) -> dict[str, dict[str, Any]]:
        """By application_name or correlation id."""
        return {one["correlation_id"] or one["metadata"].get("application_name", ""): one for one in self.sessions}

    def text(self, session_id: str) -> bytes:
        """All that the session shows, as a file of it has it."""
        answer = self.api.get(f"/sessions/{session_id}", params={"extension": "txt", "events": "i,o,e"})
        assert answer.is_success, answer.text
        return answer.content

    def check_shown(self, seen: Iterable[Seen]) -> int:
        """Every byte that was shown is in its recording, in order. Answers how many bytes that were."""
        count = 0
        for one in seen:
            if not one.shown and not one.asked:
                continue
            text = self.text(self.by_name[one.name]["id"])
            assert b"[note] segment" not in text, text
            at = 0
            for cell in one.shown:
                found = text.find(cell, at)
                assert found >= 0, f"{one.name} was shown {cell[:80]!r} ({len(cell)} bytes), which is not recorded"
                at, count = found + len(cell), count + len(cell)
            for statement in one.asked:
                assert statement.encode() in text
        return count

    def check_ends(self) -> None:
        """Each session has ended, and is once in the ledger as opened and once as closed."""
        assert {one["status"] for one in self.sessions} == {"done"}
        wanted = {one["id"] for one in self.sessions}
        for kind in ("opened", "closed"):
            found = Counter(one["session"] for one in self._entries(kind) if one["kind"] == kind)
            assert set(found) == wanted
            assert set(found.values()) == {1}

    def check_proof(self) -> dict[str, Any]:
        """By an export, the public key, and nothing else."""
        key = self.folder / "ledger.pem"
        key.write_text(ok(self.gateway, "recordings", "key"))
        export = self._export("proof")
        done = self.gateway.run("sessions", "verify", str(export), "--key", str(key), "--json")
        report: dict[str, Any] = json.loads(done.stdout)
        assert report["good"], report["findings"]
        assert report["sessions_proven"] == len(self.sessions)
        assert not report["sessions_incomplete"]
        assert not report["segments_unproven"]
        return report

    def check_reports(self) -> None:
        """Each session is counted once."""

        def counted() -> int:
            return int(self.api.get("/reports/activity").json()["total"]["sessions"])

        wait_until(lambda: counted() >= len(self.sessions), 60)
        assert counted() == len(self.sessions)

    def check_search(self, seen: Iterable[Seen]) -> None:
        """The last statement of each is found, in its session alone."""
        for one in seen:
            if one.asked:
                wanted = self.by_name[one.name]["id"]
                words = one.asked[-1].split("'")[1].split()[-1 if one.name.startswith("w") else 0]
                wait_until(lambda words=words, wanted=wanted: self.found(words) == [wanted], 60)  # type: ignore[misc]

    def found(self, words: str) -> list[str]:
        answer = self.api.get("/sessions", params={"search": f'"{words}"'})
        assert answer.is_success, answer.text
        return [one["id"] for one in answer.json()["data"]]

    def _entries(self, name: str) -> list[dict[str, Any]]:
        with tarfile.open(self._export(name)) as tar:
            parts = [tar.extractfile(one) for one in tar if one.name.startswith("ledger-")]
            return [json.loads(line.split(b" ", 1)[1]) for part in parts if part for line in part]

    def _export(self, name: str) -> Path:
        export = self.folder / f"{name}.tar"
        export.unlink(missing_ok=True)
        ok(self.gateway, "recordings", "export", "-o", str(export))
        return export
