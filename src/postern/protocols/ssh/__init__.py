"""SSH servers. Each channel of an SSH connection is a link that speaks the frames of `protocols.terminal`.

`spec` is the entry of the registry, `listener` the gateway's side, `target` the agent's. `ssh_transport` is what both
sides share of the bytes below a connection, `ssh_listening` what they tell each other about forwarded ports.
"""
