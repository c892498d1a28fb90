"""A backend that speaks WebSocket over HTTP in gripcontrol's own coding, on a port of its own."""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from gripcontrol import (
    WebSocketEvent,
    decode_websocket_events,
    encode_websocket_events,
    validate_sig,
    websocket_control_message,
)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        signed = validate_sig(self.headers.get("Grip-Sig") or "", sys.argv[1])
        answers = []
        for event in decode_websocket_events(body):
            print(event.type, self.headers.get("Meta-User") or "-", signed, flush=True)
            if event.type == "OPEN":
                control = websocket_control_message("subscribe", {"channel": "room"})
                answers += [WebSocketEvent("OPEN"), WebSocketEvent("TEXT", "c:" + control)]
            elif event.type == "TEXT":
                content = event.content
                content = content.decode() if isinstance(content, bytes) else content
                answers.append(WebSocketEvent("TEXT", "m:you said " + content))
            elif event.type == "PING":
                answers.append(WebSocketEvent("PONG"))
            elif event.type == "CLOSE":
                answers.append(event)
        out = encode_websocket_events(answers)
        self.send_response(200)
        self.send_header("Content-Type", "application/websocket-events")
        self.send_header("Sec-WebSocket-Extensions", "grip")
        self.send_header("Set-Meta-User", "jo")
        self.send_header("Content-Length", str(len(out)))
        self.end_headers()
        self.wfile.write(out)


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("port", server.server_address[1], flush=True)
server.serve_forever()
