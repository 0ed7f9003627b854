"""Where values in responses come from."""
