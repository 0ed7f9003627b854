"""SSH at the client's side: the server for native `ssh`, `scp`, `sftp`, `rsync` and similar clients.

`ssh_gate` accepts connections, `ssh_server` answers asyncssh's callbacks for one connection, `ssh_users` finds its
user, `ssh_browser_login` handles logins in a browser, `ssh_permit_cache` caches permissions, `ssh_client_channel` makes
a link's client of each channel, `ssh_client_stream` is the byte stream below, and `ssh_host_key_pinning` has the keys
of the targets.
"""
