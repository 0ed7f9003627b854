"""HTTP for every protocol that is carried by it: readers, writers, frames between gateway and agent, both ends.

    client ─ HTTP/1.1, HTTP/2 ─▶ listener ─ frames ─▶ wire (a link) ─ frames ─▶ target ─ HTTP/1.1, HTTP/2 ─▶ application

`http1` and `http2` read and write the two versions. `listener` is the gateway's side, `target` the agent's. `wire`
judges requests and masks responses. A protocol of its own (`protocols/httpproxy`) is a spec and a dialect of requests.
"""
