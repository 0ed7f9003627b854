"""Networks that only their agent reaches: network namespaces, each joined to this machine by a link of its own.

A long link is a pair of TUN devices; a process in between passes packets on late. All of it needs root.

    python -m tests.support.networks HERE THERE NAMESPACE SECONDS    # is that process
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

INSIDE = "192.168.77.1"  # the same address in each network: nothing but an agent in there can mean the right one
_NOBODY = "02:00:00:00:00:99"
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h
_PACKET = 65_535
_MTU = 16_000  # large, since each packet passes through Python
_AT_ONCE = 256  # packets read from one side before the other gets its turn


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def need_namespaces() -> None:
    """Elsewhere than on Linux, and for others than root, a skip that says so."""
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    probe = f"postern{os.getpid()}p"
    try:
        ip("netns", "add", probe)
        ip("netns", "del", probe)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        pytest.skip(f"no network namespaces here: {error}")


@dataclass
class Network:
    """`here` and `there` are the two ends of its link, `number` (1 to 99) of this process's alone. `entering` are words
    to start a program inside by. `delay`: seconds that each way of the link takes."""

    number: int
    delay: float = 0.0
    here: str = field(init=False)
    there: str = field(init=False)
    name: str = field(init=False)
    entering: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        # Tests run beside each other: networks of two processes must not meet.
        net = f"10.{180 + os.getpid() % 64}.{os.getpid() // 64 % 2 * 100 + self.number}"
        self.here, self.there = f"{net}.1", f"{net}.2"
        self.name = f"postern{os.getpid()}n{self.number}"
        self._link = f"pn{os.getpid()}x{self.number}"
        self.entering = ("ip", "netns", "exec", self.name)
        self._carrier: subprocess.Popen[str] | None = None

    def make(self) -> None:
        """Raises CalledProcessError or OSError where that cannot be had."""
        ip("netns", "add", self.name)
        if self.delay:
            self._carry()
        else:
            ip("link", "add", self._link, "type", "veth", "peer", "name", "out", "netns", self.name)
        ip("addr", "add", f"{self.here}/24", "dev", self._link)
        ip("-n", self.name, "addr", "add", f"{self.there}/24", "dev", "out")
        ip("-n", self.name, "addr", "add", f"{INSIDE}/32", "dev", "lo")
        ip("link", "set", self._link, "up")
        for device in ("out", "lo"):
            ip("-n", self.name, "link", "set", device, "up")
        ip("-n", self.name, "route", "add", "default", "via", self.here)

    def remove(self) -> None:
        if self._carrier is not None:
            self._carrier.kill()
            self._carrier.wait()
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True, check=False)
        # The kernel takes the link away a moment later, and the next network may get its name.
        end = time.monotonic() + 30
        while Path(f"/sys/class/net/{self._link}").exists() and time.monotonic() < end:
            time.sleep(0.01)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Both ways, packets go to a machine that is not there: nobody who sends them is told."""
        ip("neigh", "replace", self.there, "lladdr", _NOBODY, "dev", self._link, "nud", "permanent")
        ip("-n", self.name, "neigh", "replace", self.here, "lladdr", _NOBODY, "dev", "out", "nud", "permanent")
        try:
            yield
        finally:
            ip("neigh", "del", self.there, "dev", self._link)
            ip("-n", self.name, "neigh", "del", self.here, "dev", "out")

    def _carry(self) -> None:
        far = f"{self._link}o"
        command = [sys.executable, "-m", "tests.support.networks", self._link, far, self.name, str(self.delay)]
        self._carrier = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self._carrier.stdout is not None
        if self._carrier.stdout.readline() != "up\n":
            assert self._carrier.stderr is not None
            raise OSError(f"no TUN devices here: {self._carrier.stderr.read()}")
        ip("-n", self.name, "link", "set", far, "name", "out")


@contextmanager
def networks(count: int, delay: float = 0.0) -> Iterator[list[Network]]:
    """Made, and removed at the end. Skips the test where they cannot be had."""
    need_namespaces()
    made = [Network(number, delay) for number in range(1, count + 1)]
    try:
        for network in made:
            network.make()
        yield made
    finally:
        for network in made:
            network.remove()


def _tun(name: str) -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    ip("link", "set", name, "mtu", str(_MTU), "txqueuelen", "20000")
    return device


def _carry(one: int, other: int, delay: float) -> None:
    """Each packet reaches the other side after `delay` seconds, in order."""
    waiting: dict[int, deque[tuple[float, bytes]]] = {one: deque(), other: deque()}
    poll = select.poll()
    poll.register(one, select.POLLIN)
    poll.register(other, select.POLLIN)
    while True:
        due = min((queue[0][0] for queue in waiting.values() if queue), default=None)
        poll.poll(None if due is None else max(0.0, (due - time.monotonic()) * 1e3))
        for source, target in ((one, other), (other, one)):
            queue = waiting[target]
            try:
                for _ in range(_AT_ONCE):
                    packet = os.read(source, _PACKET)
                    queue.append((time.monotonic() + delay, packet))
            except BlockingIOError:
                pass
            now = time.monotonic()
            while queue and queue[0][0] <= now:
                os.write(target, queue.popleft()[1])


if __name__ == "__main__":
    _ends = [_tun(name) for name in sys.argv[1:3]]
    ip("link", "set", sys.argv[2], "netns", sys.argv[3])
    print("up", flush=True)
    _carry(_ends[0], _ends[1], float(sys.argv[4]))
