"""Writes src/postern/transport/control from proto/: messages, their types, and the gRPC services.

`python scripts/generate_control.py [FOLDER]` needs grpcio-tools; a test runs it and compares.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
WITHIN = "postern/control/v1"
OUTPUT = ROOT / "src" / "postern" / "transport" / "control"
PACKAGE = "postern.transport.control"
FILES = ("control_pb2.py", "control_pb2.pyi", "control_pb2_grpc.py")


def generate(output: Path) -> None:
    """Raises RuntimeError when the compiler refuses the file; it says why on standard error."""
    common = Path(grpc_tools.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory() as folder:
        flags = [f"--{kind}_out={folder}" for kind in ("python", "pyi", "grpc_python")]
        if protoc.main(["protoc", f"-I{PROTO}", f"-I{common}", *flags, f"{WITHIN}/control.proto"]):
            raise RuntimeError("protoc failed")
        for name in FILES:
            text = (Path(folder) / WITHIN / name).read_text()
            # The compiler knows of no packages but those of the proto's path.
            text = text.replace(f"from {WITHIN.replace('/', '.')} import", f"from {PACKAGE} import")
            (output / name).write_text(text)


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT)
