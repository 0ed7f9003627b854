"""Commands that work on this machine's store and keys, without a gateway."""
