"""The terminal protocol, our own, between a client and a program that an agent runs.

`terminal_frames` has the frames, `terminal_wire` the steady state, `terminal_output` the program's output.
`terminal_text` renders recorded bytes as text, and `script` is the client that runs a script.
"""
