"""What the command line makes of a command's frames."""

from __future__ import annotations

import asyncio
import os
import sys
from types import SimpleNamespace

import pytest
from tests.support.promises import PATIENT

from postern.cli.terminal.terminal import Ends
from postern.protocols.terminal import terminal_frames as m


class Stream(asyncio.Transport):
    def write(self, data: bytes | bytearray | memoryview) -> None: ...

    def close(self) -> None: ...

    def is_closing(self) -> bool:
        return False

    def resume_reading(self) -> None: ...


async def test_the_end_of_output_is_known_before_the_command_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    out, ours = os.pipe()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(fileno=lambda: ours))
    typed, keyboard = os.pipe()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(fileno=lambda: typed))
    ends = Ends(at_terminal=False)
    stream = Stream()
    ends.connection_made(stream)
    serving = asyncio.create_task(ends.serve(stream))
    ends.data_received(m.frame(m.STDOUT, b"all") + m.OUTPUT_END_FRAME)

    def read() -> bytes:
        with os.fdopen(out, "rb") as pipe:
            return pipe.read()

    assert await asyncio.wait_for(asyncio.to_thread(read), PATIENT) == b"all"
    assert not serving.done()
    ends.data_received(m.frame(m.STDOUT, b"") + m.exit_frame(4))
    assert await asyncio.wait_for(serving, PATIENT) == 4
    os.close(keyboard)
    os.close(ours)
