"""Asks Prometheus every question of the dashboard and of the rules, about a server that is running.

Each has to be understood, has to name only metrics that the server serves, and those that are not
about trouble have to find something.
"""

import json
import re
import sys
import time
import urllib.parse
import urllib.request

THRONG, KEY, PROMETHEUS, DASHBOARD, RULES = sys.argv[1:]
PATIENCE_S = 120


def get(url, key=None):
    request = urllib.request.Request(url, headers={"X-API-Key": key} if key else {})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def ask(expression):
    query = urllib.parse.urlencode({"query": expression})
    try:
        return json.loads(get(f"{PROMETHEUS}/api/v1/query?{query}"))["data"]["result"]
    except urllib.error.HTTPError as error:
        sys.exit(f"{expression}\n  {error.read().decode()}")


def patiently(what, probe):
    """Waits for what needs a few scrapes; a time limit keeps a failure from waiting for ever."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            found = probe()
        except OSError:
            found = None
        if found:
            return found
        time.sleep(1)
    return sys.exit(f"after {PATIENCE_S} s still not: {what}")


def expressions():
    for panel in json.load(open(DASHBOARD))["panels"]:
        # A folded row has its panels within.
        for shown in [panel, *panel.get("panels", [])]:
            for target in shown.get("targets", []):
                yield shown["title"], target["expr"]


def concrete(expression):
    return expression.replace("$__rate_interval", "1m").replace("$instance", ".*")


# Metrics by name, with the suffixes of histograms.
text = get(f"{THRONG}/metrics", KEY)
served = {re.split(r"[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")}

families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in served}

patiently("Prometheus scrapes the server", lambda: ask('up{job="throng"} == 1'))
patiently("two scrapes", lambda: ask("count_over_time(throng_build_info[5m]) >= 3"))
# Something to see: a subscriber that stays, and publications.
stream = urllib.request.urlopen(f"{THRONG.replace('8001', '8000')}/sse?channel=news", timeout=30)
for n in range(20):
    body = f"message {n}".encode()
    request = urllib.request.Request(f"{THRONG}/pub?channel=news", body, {"X-API-Key": KEY})
    urllib.request.urlopen(request, timeout=10).read()
patiently("deliveries are counted", lambda: ask("rate(throng_deliveries_total[1m]) > 0"))
patiently("a connection is seen", lambda: ask('throng_connections{transport="sse"} == 1'))

panels = list(expressions())
asked = set()
for title, expression in panels:
    names = set(re.findall(r"\b(?:throng|process)_\w+", expression))
    if not names:
        sys.exit(f"{title}: names no metric: {expression}")
    if names - served:
        sys.exit(f"{title}: the server does not serve {names - served}")
    asked |= names
    found = ask(concrete(expression))
    # A comparison filters; without one, silence would be an empty panel.
    if " > " not in expression and not found:
        sys.exit(f"{title}: finds nothing: {expression}")

for line in open(RULES):
    names = set(re.findall(r"\bthrong_\w+", line))
    # An annotation may name a histogram as a whole.
    if names - served - families:
        sys.exit(f"rules: the server does not serve {names - served}")
groups = json.loads(get(f"{PROMETHEUS}/api/v1/rules"))["data"]["groups"]
rules = [rule for group in groups for rule in group["rules"]]
for rule in rules:
    if rule.get("lastError"):
        sys.exit(f"rule {rule['name']}: {rule['lastError']}")
alerts = json.loads(get(f"{PROMETHEUS}/api/v1/alerts"))["data"]["alerts"]
firing = [alert["labels"]["alertname"] for alert in alerts]
if firing:
    sys.exit(f"a healthy server, and yet: {firing}")

shown = {re.sub(r"_(bucket|sum|count)$", "", name) for name in asked}
print(
    f"note: {len(panels)} questions and {len(rules)} rules hold; "
    f"the dashboard shows {len(shown)} of {len(families)} metrics"
)
