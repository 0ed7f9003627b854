"""SSH servers. Each channel of an SSH connection is a link that speaks the frames of `protocols.terminal`.

`spec` is the entry of the registry, `listener` the gateway's side, `target` the agent's.
"""
