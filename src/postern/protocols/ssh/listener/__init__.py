"""SSH at the client's side: what native `ssh`, `scp`, `sftp`, `rsync` and their kin reach.

`gate` lets them in, `server` is what asyncssh asks about one connection, `users` says who that is, `browser` where
somebody says so elsewhere, `right` what they may, `channel` makes a link's client of each channel, `wire` is the bytes
below, `host_keys` those of the targets.
"""
