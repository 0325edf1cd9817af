#!/usr/bin/env python3
"""A small program of the web site: says its greeting, and whether it is well."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

with open(sys.argv[1], encoding="utf-8") as file:
    settings = json.load(file)


class Handler(BaseHTTPRequestHandler):
    """Answers requests."""

    def do_GET(self):
        text = "well" if self.path == "/health" else settings["greeting"]
        body = (text + "\n").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Says nothing of each request."""


server = ThreadingHTTPServer(("127.0.0.1", settings["port"]), Handler)
print(f"listens on port {settings['port']}", flush=True)
server.serve_forever()
