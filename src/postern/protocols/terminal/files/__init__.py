"""Programs that read and write files for their clients, in the frames of a command.

`wire` is what they have in common; `sftp` is the file transfer protocol of SSH, with the packets of `sftp_messages` and
the files that `transfers` follows; `copying` is for programs that copy by themselves: `scp` in its older way, `rsync`.
"""
