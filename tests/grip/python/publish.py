"""Publishes one item to a channel by one of pubcontrol's ways, and says what came of it.

publish.py http URI CHANNEL CONTENT
publish.py push COMMAND_URI CHANNEL CONTENT
publish.py pub COMMAND_URI CHANNEL CONTENT
"""

import sys
import threading

from gripcontrol import GripPubControl, HttpResponseFormat, HttpStreamFormat, WebSocketMessageFormat
from pubcontrol import Item, ZmqPubControlClient

how, uri, channel, content = sys.argv[1:5]
formats = [
    HttpStreamFormat(content + "\n"),
    HttpResponseFormat(body=content + "\n"),
    WebSocketMessageFormat(content),
]
item = Item(formats)
if how == "http":
    GripPubControl({"control_uri": uri}).publish(channel, item, blocking=True)
else:
    wanted = threading.Event()

    def subscribed(kind, name):
        if kind == "sub" and name == channel:
            wanted.set()

    # A callback is refused where nobody is asked who subscribes.
    callback = subscribed if how == "pub" else None
    client = ZmqPubControlClient(uri, require_subscribers=how == "pub", sub_callback=callback)
    if how == "pub":
        # What is published before somebody subscribes is for nobody.
        assert wanted.wait(30), "nobody subscribes"
    client.publish(channel, item, blocking=True)
print("published", flush=True)
# ZeroMQ connects and sends on a thread of its own, and forgets what waits when it ends: whoever
# started this ends it.
threading.Event().wait()
