"""Commands: programs that an agent runs. They speak the frames of `protocols.terminal`."""
