"""Commands that work on this host's store and keys, without a gateway."""
