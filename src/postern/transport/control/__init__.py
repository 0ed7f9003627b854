"""The control service's messages and methods, generated from proto/postern/control/v1/control.proto by
scripts/generate_control.py (`make proto`). Not a line here is written by hand but these."""

import os

# gRPC reads these when it is imported, so the packages that speak it import this one first. Its handlers for fork()
# would write to standard error whenever a process that speaks gRPC starts another; none that we start goes on with it.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# It would write lines of a form of its own between those of the log, for what we are told as errors anyway.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
