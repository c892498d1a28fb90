"""The PyPI package cent, which calls the server API: api.py URL KEY

Orders are lines of JSON with an `id`, a method of the protocol as `order`, and its `params`; what
comes of each is told in a line of JSON. js/api.mjs speaks the same language.
"""

import json
import sys

import cent

client = cent.Client(*sys.argv[1:])


def request(method, params):
    """A request of the package, whose classes are named after the methods."""
    if method == "batch":
        each = [request(name, params) for name, params in params]
        return cent.BatchRequest(requests=each)
    name = "".join(word.capitalize() for word in method.split("_"))
    return getattr(cent, f"{name}Request")(**params)


def plain(result):
    if isinstance(result, list):
        return [plain(one) for one in result]
    return result.model_dump(exclude_none=True)


for line in sys.stdin:
    order = json.loads(line)
    method = order["order"]
    try:
        result = getattr(client, method)(request(method, order["params"]))
        told = {"event": "done", "result": plain(result)}
    except cent.CentApiResponseError as error:
        told = {"event": "failed", "code": error.code}
    sys.stdout.write(json.dumps({"id": order["id"], **told}) + "\n")
    sys.stdout.flush()
