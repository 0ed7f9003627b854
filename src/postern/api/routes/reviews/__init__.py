"""Routes about reviews and their rules."""
