"""A server that keeps texts by their names, and is spoken with in lines.

    client            server
    TLS               OK                      optional, and first: TLS from here on
    LOGIN user word   OK
    GET name          VALUE text, or NONE
    SET name text     OK
    QUIT

`ERROR text` answers whatever is not done. A `NOTE text` may stand in front of any answer, and is none.
`spec` is the entry of the registry. `pantry_lines`, `pantry_wire`, `pantry_login`, `pantry_script` and
`pantry_text_renderer` turn bytes into values. `pantry_listener` is the gateway's side, `pantry_target` the agent's.
"""
