"""Bodies about reviews and their rules."""
