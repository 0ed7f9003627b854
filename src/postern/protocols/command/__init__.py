"""Commands: programs that an agent runs. They use the frames of `protocols.terminal`."""
