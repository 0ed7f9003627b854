"""SSH servers as targets: each channel of their SSH connection becomes a stream of `protocols.terminal` frames.

`ssh_access` parses the secrets, `ssh_target_host_keys` verifies the server, `ssh_target_login` is one connection to it,
`ssh_targets` shares connections, and `ssh_target_channel` is the stream.
"""
