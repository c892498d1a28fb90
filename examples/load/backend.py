"""A back end for grip.toml: it holds each request on the channel that the path ends with.

python3 backend.py [PORT]      3000 by default; 0 for any
"""

import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Hold(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", "0")
        self.send_header("Grip-Hold", "stream")
        self.send_header("Grip-Channel", self.path.rsplit("/", 1)[1])
        self.end_headers()

    def log_message(self, *arguments):
        pass


port = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
server = ThreadingHTTPServer(("127.0.0.1", port), Hold)
print(f"back end at 127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
