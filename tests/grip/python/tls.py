"""A backend behind TLS, on a port of its choice, with the certificate of a folder."""

import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def told(word):
    """In one write, since several threads may have something to say."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def setup(self):
        super().setup()
        told("opened")

    def finish(self):
        super().finish()
        told("closed")

    def log_message(self, *_):
        pass

    def answer(self, text):
        out = text.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(out)))
        self.end_headers()
        self.wfile.write(out)

    def do_GET(self):
        self.answer(f"over TLS: {self.path}\n")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(f"{len(body)} bytes over TLS\n")


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1] + "/cert.pem", sys.argv[1] + "/key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
print("port", server.server_address[1], flush=True)
server.serve_forever()
