"""SSH servers. Each channel of an SSH connection is a link with the frames of `protocols.terminal`.

`spec` is the entry of the registry, `listener` the gateway's side, `target` the agent's. `ssh_transport` is the part
below the connection that both sides share; `ssh_listening` has the messages about forwarded ports.
"""
