"""A backend that speaks WebSocket, on a port of its choice: `plain`, or the extension `grip`."""

import asyncio
import json
import sys

from websockets.asyncio.server import serve
from websockets.exceptions import ConnectionClosedError

IS_GRIP = sys.argv[1] == "grip"


def told(*words):
    print(*words, flush=True)


def answer(connection, request, response):
    if IS_GRIP:
        response.headers["Sec-WebSocket-Extensions"] = 'grip; message-prefix="x:"'
    return None


def refuse(connection, request):
    if request.path == "/refused":
        return connection.respond(403, "not you\n")
    return None


def control(kind, **more):
    return "c:" + json.dumps({"type": kind, **more})


async def converse(connection):
    headers = connection.request.headers
    told("offered", headers.get("Sec-WebSocket-Extensions", "-"))
    told("signed", "Grip-Sig" in headers, "cookie", headers.get("Cookie", "-"))
    if IS_GRIP:
        await connection.send(control("subscribe", channel="room"))
        await connection.send("to nobody")
        await connection.send("x:welcome")
    try:
        await hear(connection)
    except ConnectionClosedError:
        pass
    told("closed", connection.close_code, connection.close_reason or "-")


async def hear(connection):
    async for message in connection:
        if not IS_GRIP:
            await connection.send(message)
        elif message == "detach":
            await connection.send(control("detach"))
        elif message == "unsubscribe":
            await connection.send(control("unsubscribe", channel="room"))
            await connection.send("x:left")
        elif isinstance(message, bytes):
            await connection.send(b"x:" + message)
        else:
            await connection.send("x:you said " + message)


async def main():
    async with serve(
        converse,
        "127.0.0.1",
        0,
        compression=None,
        max_size=None,
        process_request=refuse,
        process_response=answer,
    ) as server:
        told("port", server.sockets[0].getsockname()[1])
        await server.serve_forever()


asyncio.run(main())
