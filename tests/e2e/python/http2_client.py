"""A client of the PyPI package httpx that speaks HTTP/2: http2_client.py URL AUTHORITIES

Without TLS it takes HTTP/2 for granted. js/http2.mjs speaks the same language, and more.
"""

import json
import ssl
import sys
import threading

import httpx

url, authorities = sys.argv[1:]
client = httpx.Client(
    base_url=url,
    http1=url.startswith("https:"),
    http2=True,
    timeout=None,
    trust_env=False,
    verify=ssl.create_default_context(cafile=authorities),
)
lock = threading.Lock()


def tell(event, **fields):
    with lock:
        sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
        sys.stdout.flush()


def version(response):
    return int(float(response.http_version.split("/")[1]))


def follow(target):
    with client.stream("GET", target) as response:
        tell("open", status=response.status_code, version=version(response))
        for line in response.iter_lines():
            tell("line", text=line)
    tell("ended", target=target)


for line in sys.stdin:
    order = json.loads(line)
    if order["order"] == "follow":
        threading.Thread(target=follow, args=[order["target"]], daemon=True).start()
    else:
        response = client.request(order["method"], order["target"], content=order.get("body"))
        told = {"status": response.status_code, "body": response.text}
        tell("done", id=order["id"], version=version(response), **told)
