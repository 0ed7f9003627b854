"""The composition of each process."""
