"""SSH servers. Each channel of an SSH connection is a link that speaks the frames of `protocols.terminal`."""
