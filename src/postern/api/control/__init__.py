"""The control service (gRPC): agents and command lines connect to it and receive orders. Bytes of sessions never travel
here."""

import postern.transport.control  # noqa: F401 - sets gRPC up before the modules here import it
