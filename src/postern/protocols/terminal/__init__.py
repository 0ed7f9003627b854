"""Commands: a protocol of our own between a client and a program that an agent runs.

`messages` has the frames, `wire` the steady state, `output` what the program prints, `lens` turns recorded bytes into
readable text, `script` runs a text as a client of its own.
"""
