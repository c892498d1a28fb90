"""django-eventstream on a port of its choice, with a page that listens and a view that sends.

events.py DATABASE CONTROL_URI
"""

import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import django
from django.conf import settings

settings.configure(
    DEBUG=False,
    SECRET_KEY="tests",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "django_eventstream"],
    MIDDLEWARE=["django_grip.GripMiddleware"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1]}},
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    USE_TZ=True,
    EVENTSTREAM_STORAGE_CLASS="django_eventstream.storage.DjangoModelStorage",
    GRIP_PROXIES=[{"control_uri": sys.argv[2]}],
)
django.setup()

import django_eventstream
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import include, path
from django_eventstream import send_event

PAGE = """<!doctype html><title>events</title><script>
var got = [], ids = [], opened = 0;
function listen(last) {
  var query = last ? '?lastEventId=' + encodeURIComponent(last) : '';
  var source = new EventSource('/events/' + query);
  source.addEventListener('stream-open', function () { opened += 1; });
  source.addEventListener('message', function (event) {
    got.push(JSON.parse(event.data).n);
    ids.push(event.lastEventId);
  });
  window.source = source;
}
</script>"""


def send(request):
    send_event("test", "message", {"n": int(request.GET["n"])})
    return HttpResponse("sent")


urlpatterns = [
    path("", lambda request: HttpResponse(PAGE)),
    path("send/", send),
    path("events/", include(django_eventstream.urls), {"channels": ["test"]}),
]


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Handler(WSGIRequestHandler):
    def log_message(self, *_):
        pass


call_command("migrate", verbosity=0, run_syncdb=True)
server = make_server(
    "127.0.0.1", 0, get_wsgi_application(), server_class=Server, handler_class=Handler
)
print("port", server.server_address[1], flush=True)
server.serve_forever()
