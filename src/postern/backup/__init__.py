"""The file of a backup: written, read and verified in constant memory. Nothing here knows what is in it."""
