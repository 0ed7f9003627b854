"""Secret files are deleted on every way out of dialling."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from tests.agent.test_secrets import encoded, order

from postern.agent import secret_files
from postern.agent.secret_files import PREFIX, SecretFiles
from postern.agent.secrets import ResolvedSecrets, Resolver
from postern.agent.target_dialer import TargetDialer
from postern.domain.reference import Reference
from postern.errors import Unavailable
from postern.integrations.secrets.sources import Sources
from postern.relay.orders import Order
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Target

SECRET = {"filesystem:KEY": encoded(b"k"), "envvar:PASS": "_envjson:SHOP:password"}


class Forgetting(Sources):
    def __init__(self) -> None:
        super().__init__({"SHOP": json.dumps({"password": "p"})})
        self.forgotten: list[Reference] = []

    def forget(self, reference: Reference) -> None:
        self.forgotten.append(reference)


class Kind:
    """Targets that are reached or not: `raises` instead of a target, after `delay` seconds."""

    def __init__(self, raises: BaseException | None = None, delay: float = 0.0) -> None:
        self.raises = raises
        self.delay = delay
        self.key: Path | None = None
        self.begun = asyncio.Event()
        self.released = 0
        self.cancelled_with: ResolvedSecrets | None = None

    async def dial(self, order: Order, secrets: ResolvedSecrets) -> Target:
        self.key = Path(secrets.env["KEY"].reveal())
        assert self.key.read_bytes() == b"k"
        self.begun.set()
        await asyncio.sleep(self.delay)
        if self.raises is not None:
            raise self.raises
        return Target(StreamHandshake(), release=self._release)

    def _release(self) -> None:
        self.released += 1
        raise RuntimeError("the target's own part failed")

    async def cancel(self, order: Order, secrets: ResolvedSecrets, process: int, key: bytes) -> None:
        self.cancelled_with = secrets


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(secret_files, "places", lambda _environ: [tmp_path])
    return tmp_path


def reach(kind: Kind, sources: Sources | None = None) -> TargetDialer:
    found = TargetDialer(Resolver(sources or Forgetting(), SecretFiles({})))
    found._kinds["postgres"] = kind
    return found


def left(place: Path) -> list[Path]:
    return list(place.glob(f"{PREFIX}*/*"))


async def test_secret_files_stay_until_the_target_is_released(place: Path) -> None:
    kind = Kind()
    target = await reach(kind).dial(order(SECRET))
    assert len(left(place)) == 1
    target.release()
    assert kind.released == 1
    assert not left(place)


@pytest.mark.parametrize("problem", [Unavailable("down"), ConnectionResetError(), RuntimeError("a bug")])
async def test_failed_dial_leaves_no_secret_files(place: Path, problem: Exception) -> None:
    sources = Forgetting()
    with pytest.raises((Unavailable, RuntimeError)):
        await reach(Kind(problem), sources).dial(order(SECRET))
    assert not left(place)
    assert sources.forgotten == [Reference.read("_envjson:SHOP:password")]


async def test_timed_out_dial_leaves_no_secret_files(place: Path) -> None:
    kind = Kind(delay=60)
    slow = Order(**{**{name: getattr(order(SECRET), name) for name in Order.__slots__}, "timeout": 1.0})
    with pytest.raises(Unavailable, match="did not answer within"):
        await reach(kind).dial(slow)
    assert kind.key is not None
    assert not left(place)


async def test_cancelled_dial_leaves_no_secret_files(place: Path) -> None:
    kind = Kind(delay=60)
    dialling = asyncio.create_task(reach(kind).dial(order(SECRET)))
    await kind.begun.wait()
    dialling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dialling
    assert not left(place)


async def test_cancel_order_writes_no_secret_files(place: Path) -> None:
    kind = Kind()
    await reach(kind).cancel(order(SECRET), 1, b"key")
    assert kind.cancelled_with is not None
    assert kind.cancelled_with.values["PASS"].reveal() == "p"
    assert not left(place)
