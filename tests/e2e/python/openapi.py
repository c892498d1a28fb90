"""A client that openapi-python-client makes from /openapi.json: openapi.py URL KEY

Orders are those of api.py: a method of the protocol as `order`, and its `params`. The order `needs`
leaves each field that the description requires out of its example, and lists those whose call was
not refused as a bad request; `examples` lists the examples that do not fit their schemas.
"""

import importlib
import json
import subprocess
import sys
import tempfile

import httpx
from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

url, key = sys.argv[1].removesuffix("/api"), sys.argv[2]
document = httpx.get(f"{url}/openapi.json").raise_for_status().json()
validate(document)
folder = tempfile.TemporaryDirectory()
sys.path.insert(0, folder.name)
with open(f"{folder.name}/openapi.json", "w") as file:
    json.dump(document, file)
make = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
make += ["--path", file.name, "--output-path", f"{folder.name}/made"]
subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
made = importlib.import_module("made")
client = made.AuthenticatedClient(url, key, prefix="", auth_header_name="X-API-Key")


def call(method, params):
    """The answer of a call as the made client reads it."""
    models = importlib.import_module("made.models")
    name = "".join(word.capitalize() for word in method.split("_"))
    body = getattr(models, f"{name}Request").from_dict(params)
    module = importlib.import_module(f"made.api.default.{method}")
    return module.sync(client=client, body=body).to_dict()


def described():
    """Each call with its example and its schema."""
    for path, methods in document["paths"].items():
        content = methods.get("post", {}).get("requestBody", {}).get("content", {})
        for form in content.values():
            if "example" in form:
                name = form["schema"]["$ref"].rsplit("/", 1)[1]
                schema = document["components"]["schemas"][name]
                yield path, form["example"], schema


def needs():
    wrong = []
    for path, example, schema in described():
        for field in schema.get("required", []):
            body = {name: value for name, value in example.items() if name != field}
            headers = {"X-API-Key": key}
            answer = httpx.post(url + path, json=body, headers=headers).json()
            if answer.get("error", {}).get("code") != 107:
                wrong.append(f"{path} {field}: {answer}")
    return wrong


def examples():
    components = {"components": document["components"]}
    return [
        f"{path}: {error.message}"
        for path, example, schema in described()
        for error in OAS31Validator({**schema, **components}).iter_errors(example)
    ]


for line in sys.stdin:
    order = json.loads(line)
    method = order["order"]
    if method in ("needs", "examples"):
        told = {"event": "done", "result": globals()[method]()}
    else:
        answer = call(method, order["params"])
        if "error" in answer:
            told = {"event": "failed", "code": answer["error"]["code"]}
        else:
            told = {"event": "done", "result": answer.get("result", answer)}
    sys.stdout.write(json.dumps({"id": order["id"], **told}) + "\n")
    sys.stdout.flush()
