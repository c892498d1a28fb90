"""A push server in socketify: what uWebSockets does by itself, and as little Python as possible."""

import sys

from socketify import App, AppListenOptions, CompressOptions, OpCode

app = App()


def upgrade(response, request, context):
    response.upgrade(
        request.get_header("sec-websocket-key"),
        request.get_header("sec-websocket-protocol"),
        request.get_header("sec-websocket-extensions"),
        context,
        request.get_query("channel"),
    )


def subscribe(socket):
    socket.subscribe(socket.get_user_data())


def publish(response, request):
    channel = request.get_query("channel")

    def take(response, body, is_last):
        app.publish(channel, body, OpCode.TEXT)
        response.end("")

    response.on_data(take)


app.ws(
    "/ws",
    {
        "compression": CompressOptions.DISABLED,
        "idle_timeout": 0,
        "send_pings_automatically": False,
        "upgrade": upgrade,
        "open": subscribe,
    },
)
app.post("/pub", publish)
app.listen(AppListenOptions(port=int(sys.argv[1]), host="127.0.0.1"))
# `app.run()` would spin to serve asyncio as well. Nothing here needs that: the C loop waits alone.
app.loop.uv_loop.run()
