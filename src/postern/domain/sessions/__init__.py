"""Sessions, their recordings, and retention."""
