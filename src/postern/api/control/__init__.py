"""The control service (gRPC): who may attend, and what they are told. Bytes of sessions never travel here."""

import postern.transport.control  # noqa: F401 - sets gRPC up before the modules here import it
