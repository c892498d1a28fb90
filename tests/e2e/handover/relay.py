#!/usr/bin/env python3
"""Both ends of a hand-over as bytes: keeps what a server says, and says it to another.

As the new program of an upgrade (`… --take-over`, the socket is standard input) it writes all
messages to the file $HANDOVER_RECORD and refuses, so that the server goes on.

`relay.py RECORD VERSION PROGRAM ARGUMENTS…` starts a server that takes over from it. VERSION takes
the place of the recorded one. The first line of output says where the server will be, and where
the recorded connections are to be made again, in their order; then it takes over. It knows the
frame of messages and the places of four numbers in the first one, and nothing else of the format.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import time

VERSION_AT, ZERO_AT, SHARDS_AT, ADDRESSES_AT = 8, 60, 68, 69
END = 2
# Bytes in a line of the record.
ROW = 48


def now_us():
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000


def receive(link):
    head, descriptors = b"", []
    while len(head) < 8:
        data, came, _, _ = socket.recv_fds(link, 8 - len(head), 253)
        if not data:
            raise EOFError("the other process has ended")
        head += data
        descriptors += came
    length, count = struct.unpack("<II", head)
    body = b""
    while len(body) < length:
        data = link.recv(length - len(body))
        if not data:
            raise EOFError("the other process has ended")
        body += data
    assert len(descriptors) == count
    return body, descriptors


def send(link, body, descriptors=()):
    head = struct.pack("<II", len(body), len(descriptors))
    sent = socket.send_fds(link, [head], list(descriptors)) if descriptors else 0
    link.sendall(head[sent:] + body)


def say(link, is_well, why=b""):
    send(link, bytes([is_well]) + struct.pack("<I", len(why)) + why)


def hear(link):
    body, _ = receive(link)
    return body[0] == 1, body[5:].decode()


def rows(body):
    return [body[at : at + ROW].hex() for at in range(0, len(body), ROW)]


def record(path):
    link = socket.socket(fileno=0)
    hello, ends = receive(link)
    groups = [receive(link)[0].hex() for _ in range(hello[ADDRESSES_AT])]
    say(link, True)
    shards = []
    for end in ends:
        end, messages = socket.socket(fileno=end), []
        while True:
            body, descriptors = receive(end)
            messages.append({"bytes": rows(body), "descriptors": len(descriptors)})
            if body[0] == END:
                break
        shards.append(messages)
    (zero_us,) = struct.unpack_from("<Q", hello, ZERO_AT)
    kept = {"age_us": now_us() - zero_us, "hello": hello.hex(), "groups": groups, "shards": shards}
    with open(path, "w") as file:
        json.dump(kept, file)
    say(link, False, b"it was recorded")


def listener(port, count):
    """So many sockets at one port."""
    all = []
    for _ in range(count):
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        one.bind(("127.0.0.1", port))
        one.listen(64)
        one.setblocking(False)
        port = one.getsockname()[1]
        all.append(one)
    return all


def replay(path, version, program):
    with open(path) as file:
        kept = json.load(file)
    hello = bytearray.fromhex(kept["hello"])
    struct.pack_into("<I", hello, VERSION_AT, version)
    struct.pack_into("<Q", hello, ZERO_AT, now_us() - kept["age_us"])
    count = hello[SHARDS_AT]
    groups = [listener(0, count) for _ in kept["groups"]]
    intake = socket.create_server(("127.0.0.1", 0))
    ports = [group[0].getsockname()[1] for group in groups]
    print(json.dumps({"ports": ports, "intake": intake.getsockname()[1]}), flush=True)
    wanted = sum(message["descriptors"] for shard in kept["shards"] for message in shard)
    connections = [intake.accept()[0] for _ in range(wanted)]
    for connection in connections:
        connection.setblocking(False)
    link, theirs = socket.socketpair()
    # Its own words go to standard error: lines of two processes in one pipe would mix.
    child = subprocess.Popen([*program, "--take-over"], stdin=theirs, stdout=sys.stderr)
    theirs.close()
    pairs = [socket.socketpair() for _ in range(count)]
    try:
        send(link, hello, [there.fileno() for _, there in pairs])
        for body, group in zip(kept["groups"], groups):
            send(link, bytes.fromhex(body), [one.fileno() for one in group])
    except (BrokenPipeError, ConnectionResetError):
        pass  # It has refused and ended: its word is heard below.
    for step in ("ready", "whole"):
        is_well, why = hear(link)
        if not is_well:
            print(f"refused: {why}", flush=True)
            sys.exit(child.wait())
        if step == "ready":
            rest = iter(connections)
            for (here, _), messages in zip(pairs, kept["shards"]):
                for message in messages:
                    some = [next(rest).fileno() for _ in range(message["descriptors"])]
                    send(here, bytes.fromhex("".join(message["bytes"])), some)
    for one in connections:
        one.close()
    say(link, True)
    print("taken over", flush=True)
    sys.exit(child.wait())


if sys.argv[-1] == "--take-over":
    record(os.environ["HANDOVER_RECORD"])
else:
    replay(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
