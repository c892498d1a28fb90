"""One client of the PyPI package centrifuge-python, steered by lines of JSON on standard input.

sdk.py [protobuf]

What happens to it is told in lines of JSON on standard output, in the order in which it happens.
js/sdk.mjs speaks the same language with the other official SDK.
"""

import asyncio
import json
import sys

import centrifuge


# In Protobuf data are bytes, which here are always JSON.
PROTOBUF = sys.argv[1:] == ["protobuf"]


def written(data):
    return json.dumps(data).encode() if PROTOBUF else data


def read(data):
    return json.loads(data) if PROTOBUF and data else data


def tell(event, **fields):
    fields = {key: value for key, value in fields.items() if value is not None}
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def supplier(name, tokens):
    """The tokens that a backend would hand out, one after the other."""
    if tokens is None:
        return None

    async def give(*_):
        tell(name)
        return tokens.pop(0)

    return give


def subscribed(channel, ctx):
    position = ctx.stream_position
    tell(
        "subscribed",
        channel=channel,
        was_recovering=ctx.was_recovering,
        recovered=ctx.recovered,
        recoverable=ctx.recoverable,
        offset=position.offset if position else None,
        epoch=position.epoch if position else None,
    )


class Client(centrifuge.ClientEventHandler):
    async def on_connecting(self, ctx):
        tell("connecting", code=ctx.code, reason=ctx.reason)

    async def on_connected(self, ctx):
        tell("connected", client=ctx.client)

    async def on_disconnected(self, ctx):
        tell("disconnected", code=ctx.code, reason=ctx.reason)

    async def on_error(self, ctx):
        tell("error", code=getattr(ctx.error, "code", ctx.code), message=str(ctx.error))

    async def on_subscribed(self, ctx):
        subscribed(ctx.channel, ctx)

    async def on_unsubscribed(self, ctx):
        tell("unsubscribed", channel=ctx.channel)

    async def on_publication(self, ctx):
        tell("publication", channel=ctx.channel, data=read(ctx.pub.data), offset=ctx.pub.offset)


class Subscription(centrifuge.SubscriptionEventHandler):
    def __init__(self, channel):
        self.channel = channel

    async def on_subscribing(self, ctx):
        tell("subscribing", channel=self.channel, code=ctx.code, reason=ctx.reason)

    async def on_subscribed(self, ctx):
        subscribed(self.channel, ctx)

    async def on_unsubscribed(self, ctx):
        tell("unsubscribed", channel=self.channel, code=ctx.code, reason=ctx.reason)

    async def on_publication(self, ctx):
        pub = ctx.pub
        user = pub.info.user if pub.info else None
        data = read(pub.data)
        tell("publication", channel=self.channel, data=data, offset=pub.offset, user=user)

    async def on_join(self, ctx):
        tell("join", channel=self.channel, client=ctx.info.client, user=ctx.info.user)

    async def on_leave(self, ctx):
        tell("leave", channel=self.channel, client=ctx.info.client, user=ctx.info.user)

    async def on_error(self, ctx):
        code = getattr(ctx.error, "code", ctx.code)
        tell("subscription error", channel=self.channel, code=code, message=str(ctx.error))


class Driver:
    client = None

    async def connect(self, order):
        self.client = centrifuge.Client(
            order["url"],
            events=Client(),
            token=order.get("token") or "",
            get_token=supplier("token wanted", order.get("tokens")),
            min_reconnect_delay=0.02,
            max_reconnect_delay=0.2,
            timeout=20.0,
            max_server_ping_delay=order.get("ping_delay_ms", 10000) / 1000,
            proxy=None,
            use_protobuf=PROTOBUF,
        )
        await self.client.connect()

    async def disconnect(self, _):
        await self.client.disconnect()

    async def subscribe(self, order):
        channel = order["channel"]
        sub = self.client.get_subscription(channel)
        if sub is None:
            sub = self.client.new_subscription(
                channel,
                events=Subscription(channel),
                token=order.get("token") or "",
                get_token=supplier("subscription token wanted", order.get("tokens")),
                delta=centrifuge.DeltaType(order["delta"]) if order.get("delta") else None,
                min_resubscribe_delay=0.02,
                max_resubscribe_delay=0.2,
            )
        await sub.subscribe()

    async def unsubscribe(self, order):
        await self.client.get_subscription(order["channel"]).unsubscribe()

    async def publish(self, order):
        await self.client.publish(order["channel"], written(order["data"]))
        return {}

    async def history(self, order):
        since = order.get("since")
        page = await self.client.history(
            order["channel"],
            limit=order.get("limit") or 0,
            since=centrifuge.StreamPosition(since["offset"], since["epoch"]) if since else None,
            reverse=order.get("reverse") or False,
        )
        data = [read(pub.data) for pub in page.publications]
        return {"data": data, "offset": page.offset, "epoch": page.epoch}

    async def rpc(self, order):
        result = await self.client.rpc(order["method"], written(order["data"]))
        return {"data": read(result.data)}

    async def presence(self, order):
        result = await self.client.presence(order["channel"])
        clients = sorted(result.clients)
        users = sorted(info.user for info in result.clients.values())
        return {"clients": clients, "users": users}

    async def presence_stats(self, order):
        result = await self.client.presence_stats(order["channel"])
        return {"num_clients": result.num_clients, "num_users": result.num_users}


async def carry_out(driver, order):
    try:
        result = await getattr(driver, order["order"])(order)
        if result is not None:
            tell("done", id=order["id"], **result)
    except centrifuge.CentrifugeError as error:
        tell("failed", id=order["id"], code=getattr(error, "code", None), message=str(error))


async def main():
    loop = asyncio.get_running_loop()
    driver, running = Driver(), set()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        order = json.loads(line)
        task = loop.create_task(carry_out(driver, order))
        running.add(task)
        task.add_done_callback(running.discard)


asyncio.run(main())
