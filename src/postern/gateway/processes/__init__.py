"""The processes of one machine, and their data folder."""
