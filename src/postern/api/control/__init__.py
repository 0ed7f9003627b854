"""The control service (gRPC): who may attend, and what they are told. Bytes of sessions never travel here."""
