"""Encryption at rest: values are sealed by data keys, one for each organisation, which a master key wraps."""

from postern.store.encryption.encryption_masters import LocalMaster, environment_key, file_key, make_file_key
from postern.store.encryption.encryption_vault import Encryption

__all__ = ["Encryption", "LocalMaster", "environment_key", "file_key", "make_file_key"]
