"""A back end with the PyPI package pusher: backend.py HOST:PORT APP KEY SECRET

Orders and events are lines of JSON, as with sdk.py; java/Backend.java, go/backend.go and
js/pusher.mjs speak the same language.
"""

import base64
import json
import sys

import pusher

address, app, key, secret = sys.argv[1:]
host, port = address.split(":")
client = pusher.Pusher(
    app,
    key,
    secret,
    host=host,
    port=int(port),
    ssl=False,
    encryption_master_key_base64=base64.b64encode(b"k" * 32).decode(),
)


def get(path, params=None):
    """The questions of the package, by the paths that they ask."""
    attributes = (params or {}).get("info", "").split(",")
    attributes = [name for name in attributes if name]
    _, _, *rest = path.split("/")
    if not rest:
        return client.channels_info((params or {}).get("filter_by_prefix"), attributes)
    if rest[1:] == ["users"]:
        return client.users_info(rest[0])
    return client.channel_info(rest[0], attributes)


orders = {
    "trigger": lambda channels, name, data, socket_id=None: {
        "body": client.trigger(channels, name, data, socket_id)
    },
    "batch": lambda batch: {"body": client.trigger_batch(batch)},
    "note": lambda user, name, data: {"body": client.send_to_user(user, name, data)},
    "terminate": lambda user: {"body": client.terminate_user_connections(user)},
    "get": lambda **asked: {"body": get(**asked)},
    "authorize": lambda channel, socket_id, member=None: {
        "answer": client.authenticate(channel, socket_id, member)
    },
    "authenticate": lambda socket_id, user: {
        "answer": client.authenticate_user(socket_id, user)
    },
}

for line in sys.stdin:
    order = json.loads(line)
    number, name = order.pop("id"), order.pop("order")
    try:
        told = {"event": "done", **orders[name](**order)}
    except pusher.errors.PusherError as error:
        told = {"event": "failed", "body": str(error)}
    # A shared secret comes as bytes.
    sys.stdout.write(json.dumps({"id": number, **told}, default=bytes.decode) + "\n")
    sys.stdout.flush()
