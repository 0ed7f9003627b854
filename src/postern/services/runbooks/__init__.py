"""Runbooks: where they are kept, who may run which of them where, running them, and running them by the clock."""
