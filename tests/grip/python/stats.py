"""Reads statistics by ZeroMQ's SUB socket, and tells each packet as a line of JSON: its fields,
with its kind as `event`. Before the first one it tells that it `hears`.

stats.py URI [KIND ...]
"""

import json
import sys

import tnetstring
import zmq

uri, *kinds = sys.argv[1:]
socket = zmq.Context().socket(zmq.SUB)
for kind in kinds or [""]:
    socket.setsockopt(zmq.SUBSCRIBE, f"{kind} ".encode() if kind else b"")
socket.connect(uri)


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def told(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


is_first = True
while True:
    kind, packet = socket.recv().split(b" ", 1)
    if packet[:1] == b"T":
        fields = {text(name): text(value) for name, value in tnetstring.loads(packet[1:]).items()}
    else:
        assert packet[:1] == b"J", packet
        fields = json.loads(packet[1:])
    if is_first:
        told("hears")
    is_first = False
    told(kind.decode(), **fields)
