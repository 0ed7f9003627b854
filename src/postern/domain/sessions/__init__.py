"""Sessions, what is recorded of them, and how long it is kept."""
