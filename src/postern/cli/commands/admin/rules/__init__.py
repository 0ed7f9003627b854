"""Rules of access, networks, reviews and runbooks."""
