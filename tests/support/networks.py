"""An agent's network of its own: a namespace with a link to the gateway, which can be long, and one to the target.

A long link is a pair of TUN devices; a process in between passes packets on late. Needs root.

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

HERE, THERE = "10.203.1.1", "10.203.1.2"  # the two ends of the link to the gateway
TARGET, EDGE = "10.203.2.1", "10.203.2.2"  # of the other link, from the agent to its target

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h
_PACKET = 65_535
_MTU = 16_000  # large, since each packet passes through Python
_AT_ONCE = 256  # packets read from one side before the other gets its turn


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Network:
    """`delay`: seconds that each way of the link to the gateway takes. Raises CalledProcessError or OSError from
    `make` where that cannot be had."""

    def __init__(self, delay: float = 0.0) -> None:
        self.name = f"postern{os.getpid()}"
        self._delay = delay
        self._carrier: subprocess.Popen[str] | None = None

    def make(self) -> None:
        near, far = f"pa{os.getpid()}", f"pb{os.getpid()}"
        ip("netns", "add", self.name)
        ip("-n", self.name, "link", "set", "lo", "up")
        if self._delay:
            self._carry(near)
        else:
            self._pair(near)
        self._pair(far)
        for link, here, there in ((near, HERE, THERE), (far, TARGET, EDGE)):
            ip("addr", "add", f"{here}/24", "dev", link)
            ip("-n", self.name, "addr", "add", f"{there}/24", "dev", f"x{link}")
            ip("link", "set", link, "up")
            ip("-n", self.name, "link", "set", f"x{link}", "up")

    def remove(self) -> None:
        if self._carrier is not None:
            self._carrier.kill()
            self._carrier.wait()
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True, check=False)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Both ways, what is sent to the other end of the link is dropped, and nobody is told."""
        ip("route", "add", "blackhole", f"{THERE}/32")
        ip("-n", self.name, "route", "add", "blackhole", f"{HERE}/32")
        try:
            yield
        finally:
            ip("route", "del", "blackhole", f"{THERE}/32")
            ip("-n", self.name, "route", "del", "blackhole", f"{HERE}/32")

    def _pair(self, link: str) -> None:
        ip("link", "add", link, "type", "veth", "peer", "name", "far", "netns", self.name)
        ip("-n", self.name, "link", "set", "far", "name", f"x{link}")

    def _carry(self, link: str) -> None:
        command = [sys.executable, "-m", "tests.support.networks", link, f"x{link}", self.name, str(self._delay)]
        self._carrier = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self._carrier.stdout is not None
        if self._carrier.stdout.readline() != "up\n":
            assert self._carrier.stderr is not None
            raise OSError(f"no TUN devices here: {self._carrier.stderr.read()}")


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
