"""The URI of a MongoDB database. It is one of the target's keys as it is: `mongodb_target.py` parses it, by MongoDB's
own library."""

from __future__ import annotations

from typing import Final

from postern.protocols.protocol_database_uri import DatabaseUri

URI: Final = DatabaseUri("mongodb", r"mongodb(?:\+srv)?", 27017, frozenset(), whole_key="CONNECTION_STRING")
