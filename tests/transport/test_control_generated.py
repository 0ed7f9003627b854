"""The committed code of the control service matches its proto file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from postern.transport import control
from postern.transport.control import control_pb2 as messages

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "src" / "postern" / "transport" / "control"


def test_committed_code_equals_the_code_generated_from_the_proto(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "scripts" / "generate_control.py", tmp_path], check=True, timeout=60)
    made = sorted(path.name for path in tmp_path.iterdir())
    assert made == sorted(path.name for path in COMMITTED.glob("control_pb2*"))
    assert control.__doc__
    for name in made:
        assert (tmp_path / name).read_text() == (COMMITTED / name).read_text(), f"{name}: run `make proto`"


@pytest.mark.parametrize("kind", [messages.AgentReport, messages.AgentOrder, messages.ProxyReport, messages.ProxyOrder])
def test_message_with_an_unknown_field_is_read_without_it(kind: type[messages.AgentReport]) -> None:
    later = kind.FromString(b"\xfa\x07\x03new")  # field 127, which nobody has yet
    assert later.WhichOneof(kind.DESCRIPTOR.oneofs[0].name) is None


@pytest.mark.parametrize("module", ["postern.client.client_control", "postern.api.control.control_server"])
@pytest.mark.ci
def test_process_with_grpc_starts_child_processes_without_output(module: str) -> None:
    program = f"""
import asyncio, {module}, grpc
async def main():
    server = grpc.aio.server()
    await server.start()
    started = await asyncio.create_subprocess_exec("true", preexec_fn=lambda: None)
    await started.wait()
    await server.stop(0)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("", "")
