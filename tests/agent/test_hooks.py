"""Session hooks as an agent runs them, with a real Python."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from tests.agent.test_command import Go, go
from tests.agent.test_secrets import order
from tests.support.promises import until, within

from postern.agent import process_cleanup
from postern.agent.agent_hooks import AgentHooks
from postern.agent.agent_policy import ANYTHING, NO_COMMANDS, LocalPolicy
from postern.agent.process_cleanup import processes
from postern.agent.secrets import Resolver
from postern.agent.target_dialer import TargetDialer
from postern.domain.hook import MAX_OUTPUT, HookOutcome
from postern.errors import Denied, Unavailable
from postern.relay.relay_hooks import MORE, Hook

pytestmark = pytest.mark.ci

__all__ = ["go"]

# The interpreter itself, and no script that stands before it.
ENVIRON = {**os.environ, "PATH": f"{Path(sys.executable).resolve().parent}:{os.environ['PATH']}"}
CONTEXT = base64.b64encode(json.dumps({"sid": "s1"}).encode()).decode()


def hook(text: str, seconds: float = 60.0) -> Hook:
    return Hook(uuid4(), textwrap.dedent(text), CONTEXT, seconds)


async def run(one: Hook, environ: Mapping[str, str] = ENVIRON, policy: LocalPolicy = ANYTHING) -> HookOutcome:
    """And looks whether anything was left behind."""
    outcome = await AgentHooks(policy, environ).run(one)
    assert alive(one.id) == set()
    return outcome


def alive(run_id: UUID) -> set[int]:
    return processes(-1, f"POSTERN_HOOK_ID={run_id}".encode())


def test_hook_receives_its_context_and_its_output_is_returned(go: Go) -> None:
    async def work() -> None:
        script = """
            import base64, json, os, sys
            for name in ("POSTERN_HOOK_PAYLOAD", "HOOP_RUNBOOK_HOOK_PAYLOAD"):
                print(json.loads(base64.b64decode(os.environ[name]))["sid"], flush=True)
            print("größe", file=sys.stderr)
            sys.exit(3)
        """
        assert await run(hook(script)) == HookOutcome(3, "s1\ns1\ngröße\n")

    go(work)


async def test_hook_runs_isolated_and_without_secrets_of_the_agent() -> None:
    environ = {"PATH": ENVIRON["PATH"], "AWS_SECRET_ACCESS_KEY": "planted", "POSTERN_KEY": "planted"}
    outcome = await run(hook("import os, sys; print(sorted(os.environ), sys.flags.isolated)"), environ)
    own = ["HOOP_RUNBOOK_HOOK_PAYLOAD", "LANG", "PATH", "POSTERN_HOOK_ID", "POSTERN_HOOK_PAYLOAD"]
    found, _, isolated = outcome.output.rstrip().rpartition(" ")
    assert isolated == "1"
    assert set(json.loads(found.replace("'", '"'))) - {"LC_CTYPE"} == set(own)


def test_hanging_hook_is_ended_and_its_output_is_returned(go: Go) -> None:
    async def work() -> None:
        stubborn = """
            import signal, time
            for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            print("ready", flush=True)
            while True:
                time.sleep(1)
        """
        outcome = await asyncio.wait_for(run(hook(stubborn, seconds=5)), within(9))
        assert outcome == HookOutcome(None, "ready\n", "it did not finish within 5 seconds and was terminated")

    go(work)


def test_attack_hook_output_of_100_mb_is_read_and_cut(go: Go) -> None:
    async def work() -> None:
        outcome = await run(hook("import sys\nfor _ in range(100): sys.stdout.write('ä' * 500_000)\nsys.exit(4)"))
        assert outcome.exit_code == 4
        assert len(outcome.output) == MAX_OUTPUT
        assert outcome.output == "ä" * (MAX_OUTPUT - len(MORE)) + MORE

    go(work)


async def test_attack_hook_that_prints_forever_is_ended_at_its_deadline() -> None:
    outcome = await run(hook("while True: print('y' * 1000)", seconds=5))
    assert (outcome.exit_code, len(outcome.output)) == (None, MAX_OUTPUT)
    assert "was terminated" in outcome.reason


async def test_hook_output_is_cut_only_over_the_limit() -> None:
    assert (await run(hook(f"print('x' * {MAX_OUTPUT}, end='')"))).output == "x" * MAX_OUTPUT
    assert (await run(hook(f"print('x' * {MAX_OUTPUT + 1}, end='')"))).output.endswith(MORE)


async def test_hook_output_that_is_not_text_is_replaced() -> None:
    outcome = await run(hook(r"import os; os.write(1, b'a\0b\xff\xed\xa0\x80')"))
    assert outcome.exit_code == 0
    assert outcome.output.startswith("a\ufffdb\ufffd")
    assert "\0" not in outcome.output


def test_attack_children_of_a_hook_that_left_the_session_are_killed(go: Go) -> None:
    async def work() -> None:
        script = """
            import subprocess
            subprocess.Popen(["setsid", "-f", "sleep", "300"])
            subprocess.Popen(["sleep", "301"])
            print("begun")
        """
        assert await run(hook(script)) == HookOutcome(0, "begun\n")

    go(work)


async def test_hook_that_is_not_python_fails_with_a_syntax_error() -> None:
    outcome = await run(hook("echo 'I am a shell script' | wc"))
    assert outcome.exit_code == 1
    assert "SyntaxError" in outcome.output
    assert (await run(hook("print(1)\0"))).exit_code == 1


async def test_hook_that_kills_itself_has_exit_code_137() -> None:
    assert (await run(hook("import os; os.kill(os.getpid(), 9)"))).exit_code == 137


async def test_large_hook_runs_completely() -> None:
    text = "x = 0\n" + "x += 1  # one of many\n" * 5_000 + "print(x)\n"
    assert (await run(hook(text))).output == "5000\n"


async def test_hook_on_a_machine_without_python_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="'python3' does not exist"):
        await run(hook("print(1)"), {"PATH": str(tmp_path)})


@pytest.mark.parametrize(
    ("policy", "runs"),
    [
        (ANYTHING, True),
        (NO_COMMANDS, False),
        (LocalPolicy(hooks=False), False),
        (LocalPolicy(commands=False, hooks=True), True),
    ],
)
async def test_hooks_run_only_if_the_agent_policy_allows_them(policy: LocalPolicy, runs: bool) -> None:
    if runs:
        assert (await run(hook("print(1)"), policy=policy)).exit_code == 0
        return
    with pytest.raises(Denied, match="policy does not allow session hooks"):
        await run(hook("print(1)"), policy=policy)


async def test_agent_runs_no_hook_of_a_connection_its_policy_denies() -> None:
    reach = TargetDialer(Resolver(None, None), LocalPolicy(connections=("billing",)), ENVIRON)  # type: ignore[arg-type]
    with pytest.raises(Denied, match="does not allow connection 'shop'"):
        await reach.hook(order({}), hook("print(1)"))
    assert (await reach.hook(replace(order({}), connection="billing"), hook("print(1)"))).exit_code == 0


async def test_cancelled_hook_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    there = tmp_path / "there"
    one = hook(f"import subprocess; open({str(there)!r}, 'w'); subprocess.run(['sleep', '300'])")
    task = asyncio.ensure_future(run(one))
    await until(there.exists)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive(one.id) == set()


async def test_attack_hook_that_ignores_signals_is_killed_when_cancelled_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopping gateway ends its agent's hooks and exits; processes that left the session would remain."""
    monkeypatch.setattr(process_cleanup, "STAGES", ((0.0, signal.SIGHUP), (3_600.0, signal.SIGKILL)))
    there = tmp_path / "there"
    one = hook(f"""
        import os, signal, time
        for number in (signal.SIGHUP, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        if os.fork() == 0:
            os.setsid()
            open({str(there)!r}, "w")
        time.sleep(120)
    """)
    task = asyncio.ensure_future(AgentHooks(ANYTHING, ENVIRON).run(one))
    await until(there.exists)
    for _ in range(2):
        task.cancel()
        await asyncio.wait([task], timeout=0.2)
    assert task.cancelled()
    await until(lambda: not alive(one.id))
