"""Publishes one item to a channel by one of pubcontrol's ways, and says what came of it.

publish.py http URI CHANNEL CONTENT | push COMMAND_URI CHANNEL CONTENT | pub COMMAND_URI CHANNEL CONTENT
"""

import sys
import threading
import time

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

    client = ZmqPubControlClient(uri, require_subscribers=how == "pub", sub_callback=subscribed)
    if how == "pub":
        # What is published before somebody subscribes is for nobody.
        assert wanted.wait(30), "nobody subscribes"
    client.publish(channel, item, blocking=True)
    # ZeroMQ connects and sends behind the caller's back.
    time.sleep(2)
    client.close()
print("published", flush=True)
