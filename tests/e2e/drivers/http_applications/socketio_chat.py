"""A chat over Socket.IO: PORT NODE_MODULES. A message goes to everybody, by WebSocket or by long polling."""

import sys
from pathlib import Path

import socketio
from aiohttp import web

PORT, MODULES = sys.argv[1:]

PAGE = """<!doctype html><html lang="en"><head><title>Chat</title><link rel="icon" href="data:,"></head><body>
<h1>Chat</h1><p id="state"></p><ul id="said"></ul><form><input aria-label="Message"><button>Send</button></form>
<script src="/socket.io.js"></script><script>
const transport = new URLSearchParams(location.search).get("transport");
const state = document.getElementById("state");
const socket = io({ transports: [transport], reconnection: false });
socket.on("connect", () => { state.textContent = `connected by ${socket.io.engine.transport.name}`; });
socket.on("disconnect", () => { state.textContent = "disconnected"; });
socket.on("connect_error", (error) => { state.textContent = `error: ${error.message}`; });
socket.on("said", (text) => {
  const line = document.createElement("li");
  line.textContent = text;
  document.getElementById("said").append(line);
});
document.querySelector("form").addEventListener("submit", (event) => {
  event.preventDefault();
  socket.emit("say", document.querySelector("input").value);
});
</script></body></html>"""

server = socketio.AsyncServer(async_mode="aiohttp", ping_interval=5)
app = web.Application()
server.attach(app)


@server.event
async def say(sid, text):
    await server.emit("said", text)


async def show(request):
    return web.Response(text=PAGE, content_type="text/html")


async def send_library(request):
    return web.FileResponse(Path(MODULES) / "socket.io-client" / "dist" / "socket.io.min.js")


app.router.add_get("/", show)
app.router.add_get("/socket.io.js", send_library)
web.run_app(app, host="127.0.0.1", port=int(PORT), print=None)
