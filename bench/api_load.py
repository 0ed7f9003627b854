"""A process of its own that asks for the list of sessions as fast as it gets it, until SIGTERM.

BENCH_API and BENCH_TOKEN say where and as whom. Prints how many answers it got.
"""

from __future__ import annotations

import os
import signal
import threading

import httpx

_THREADS = 2


def main() -> None:
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    counts = [0] * _THREADS

    def ask(number: int) -> None:
        headers = {"Authorization": f"Bearer {os.environ['BENCH_TOKEN']}"}
        with httpx.Client(base_url=os.environ["BENCH_API"], headers=headers, timeout=30) as client:
            while not stopping.is_set():
                client.get("/api/sessions", params={"limit": 100}).raise_for_status()
                counts[number] += 1

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(_THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(sum(counts))


if __name__ == "__main__":
    main()
