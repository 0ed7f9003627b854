"""TCP services of any protocol: bytes that Postern passes on and records without reading them.

`spec` is the entry of the registry. `tcp_listener` is the gateway's side, `tcp_target` the agent's. `tcp_wire` passes
bytes on, and `readable_bytes` shows them as text where they are text.
"""
