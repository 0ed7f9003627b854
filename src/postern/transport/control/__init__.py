"""The messages and methods of the control service, generated from proto/postern/control/v1/control.proto by
scripts/generate_control.py (`make proto`). Only this module is written by hand."""

import os

# gRPC reads these variables when it is imported, so packages that use it import this one first. Its fork() handlers
# would write to standard error whenever the process starts another; no child process of ours continues to use gRPC.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
# It would write lines in its own format into the log, for errors that we get anyway.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
