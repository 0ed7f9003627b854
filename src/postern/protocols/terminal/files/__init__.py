"""Programs that transfer files with their clients, in the frames of a command.

`file_wire` is their common part. `sftp` is the file transfer protocol of SSH, with the packets of `sftp_messages` and
the file state of `transfers`. `copying` is for programs with their own protocol: `scp` in its older mode, and `rsync`.
"""
