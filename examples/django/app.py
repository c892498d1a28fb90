"""A back end for Throng with Django, in one file: it issues tokens, and publishes on a change."""

import json
import os
import socketserver
import time
import urllib.request
import uuid
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import django
import jwt
from django.conf import settings
from django.http import HttpResponse, JsonResponse
from django.urls import path, re_path
from django.views.decorators.http import require_GET, require_POST
from django.views.static import serve

SECRET = os.environ.get("THRONG_SECRET", "an-example-secret-that-everyone-knows")
KEY = os.environ.get("THRONG_KEY", "an-example-key-that-everyone-knows")
API = os.environ.get("THRONG_API", "http://127.0.0.1:8001")
CLIENTS = os.environ.get("THRONG_CLIENTS", "127.0.0.1:8000")
EXAMPLES = Path(os.environ.get("EXAMPLES", Path(__file__).parent.parent))
CHAT = os.environ.get("CHAT", EXAMPLES / "chat" / "dist")

STAFF = {"ann", "carol"}
SCORES = {"reds": 0, "blues": 0}

settings.configure(
    ALLOWED_HOSTS=["localhost", "127.0.0.1"],
    ROOT_URLCONF=__name__,
    SECRET_KEY=SECRET,
)
django.setup()


def publish(channel, data):
    # The key makes a repeated request harmless.
    body = {"channel": channel, "data": data, "idempotency_key": str(uuid.uuid4())}
    headers = {"Content-Type": "application/json", "X-API-Key": KEY}
    request = urllib.request.Request(f"{API}/api/publish", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=5) as answer:
        error = json.load(answer).get("error")
    if error:
        raise RuntimeError(f"publish: {error}")


@require_GET
def token(request):
    # A real back end reads the user from its own session: request.user.
    user, channel = request.GET.get("user"), request.GET.get("channel")
    if not user:
        return HttpResponse(status=401)
    if channel is not None and (channel != "$team:staff" or user not in STAFF):
        return HttpResponse(status=403)
    claims = {"sub": user, "exp": int(time.time()) + 600}
    if channel is not None:
        claims["channel"] = channel
    return HttpResponse(jwt.encode(claims, SECRET, "HS256"), content_type="text/plain")


@require_POST
def messages(request):
    body = json.loads(request.body)
    channel, user, text = body.get("channel"), body.get("user"), body.get("text")
    if channel != "room:general" and not (channel == "$team:staff" and user in STAFF):
        return HttpResponse(status=403)
    if not isinstance(text, str) or not text.strip() or len(text) > 500:
        return HttpResponse(status=400)
    publish(channel, {"id": str(uuid.uuid4()), "user": user, "text": text})
    return HttpResponse(status=204)


def scores(request):
    if request.method == "POST":
        body = json.loads(request.body)
        team, points = body.get("team"), body.get("points")
        if team not in SCORES or type(points) is not int:
            return HttpResponse(status=400)
        SCORES[team] += points
        publish("board:scores", SCORES)
    return JsonResponse(SCORES)


@require_GET
def where(request):
    return JsonResponse({"clients": CLIENTS})


def page(request, name, file):
    root = CHAT if name == "chat" else EXAMPLES / "board"
    return serve(request, file or "index.html", document_root=root)


urlpatterns = [
    path("token", token),
    path("messages", messages),
    path("scores", scores),
    path("settings", where),
    re_path("^(?P<name>chat|board)/(?P<file>.*)$", page),
]


class Server(socketserver.ThreadingMixIn, WSGIServer):
    """A server for development; for production see Django's own pages on deployment."""

    daemon_threads = True


if __name__ == "__main__":
    from django.core.wsgi import get_wsgi_application

    server = Server(("127.0.0.1", int(os.environ.get("PORT", "3000"))), WSGIRequestHandler)
    server.set_app(get_wsgi_application())
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
