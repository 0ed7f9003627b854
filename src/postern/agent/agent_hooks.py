"""Session hooks, run on this machine: Python on the standard input of `python3`, with the context in its environment.

There is no secret in it: of the agent's own environment, hooks get the same as commands, and nothing of a connection.
All processes that a hook started end with it.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping

from postern.agent.agent_policy import LocalPolicy
from postern.agent.command_process import CommandProgram, CommandTransport, base_environment
from postern.domain.durations import duration_text
from postern.domain.hook import MAX_OUTPUT, HookOutcome
from postern.errors import Unavailable
from postern.protocols.terminal import terminal_frames as m
from postern.relay.relay_hooks import Hook, truncate_output

PYTHON = "python3"
CONTEXT = ("POSTERN_HOOK_PAYLOAD", "HOOP_RUNBOOK_HOOK_PAYLOAD")  # the second is for hooks of another gateway
_MARK = "POSTERN_HOOK_ID"  # not the session's id, by which the session's command is ended
_MOST_KEPT = 4 * MAX_OUTPUT  # bytes: no character takes more than four
_BREATH = 0.002  # seconds between two reads of discarded output, so that others can use this loop


class AgentHooks:
    """Runs hooks. `environ` is the agent's own environment."""

    def __init__(self, policy: LocalPolicy, environ: Mapping[str, str]) -> None:
        self._policy = policy
        self._base = base_environment(environ)

    async def run(self, hook: Hook) -> HookOutcome:
        """Run a hook to its end, or to its time limit. When cancelled it is ended gracefully, and at the second
        cancellation at once. Raises Denied by the policy, Unavailable without Python."""
        self._policy.check_hooks()
        if shutil.which(PYTHON, path=self._base["PATH"]) is None:
            raise Unavailable(f"{PYTHON!r} does not exist on the agent's machine, or is not executable")
        variables = {_MARK: str(hook.id)} | dict.fromkeys(CONTEXT, hook.context)
        program = CommandProgram((PYTHON, "-I", "-"), self._base | variables, None, f"{_MARK}={hook.id}".encode())
        transport = CommandTransport(program)
        printed = _Printed(transport)
        transport.set_protocol(printed)
        reason = ""
        try:
            transport.write(m.START_FRAME + m.frames(m.STDIN, hook.text.encode()) + m.STDIN_END_FRAME)
            async with asyncio.timeout(hook.seconds):
                await printed.told.wait()
        except TimeoutError:
            reason = f"it did not finish within {duration_text(hook.seconds)} and was terminated"
        finally:
            transport.close()
            try:
                await printed.lost.wait()
            except asyncio.CancelledError:  # a second time: by a process that exits, and waits no longer
                transport.abort()
                raise
        return HookOutcome(None if reason else printed.exit_code, printed.text(), reason)


class _Printed(asyncio.Protocol):
    """The other end of a hook: the first part of its output is stored, the rest is read and discarded."""

    def __init__(self, transport: CommandTransport) -> None:
        self.exit_code: int | None = None
        self.told = asyncio.Event()  # it has ended
        self.lost = asyncio.Event()  # and all its child processes
        self._transport = transport
        self._frames = m.TerminalFrameReader()
        self._output = bytearray()
        self._is_cut = False

    def data_received(self, data: bytes) -> None:
        for kind, payload in self._frames.feed(data):
            if kind == m.EXIT:
                self.exit_code = m.read_exit(payload).code
                self.told.set()
            else:
                self._keep(payload)

    def connection_lost(self, error: Exception | None) -> None:
        self.told.set()
        self.lost.set()

    def text(self) -> str:
        return truncate_output(self._output.decode("utf-8", "replace"), is_cut=self._is_cut)

    def _keep(self, payload: bytes) -> None:
        room = _MOST_KEPT - len(self._output)
        self._output += payload[:room]
        if len(payload) > room:
            self._is_cut = True
            self._transport.pause_reading()
            asyncio.get_running_loop().call_later(_BREATH, self._transport.resume_reading)
