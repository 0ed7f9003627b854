"""The steady state of links to Oracle Database, and the codecs below it."""
