"""What the gateway sends by itself: scripts of `exec`, and questions about the catalogue."""
