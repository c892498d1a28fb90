"""Opens a page in a real browser, waits until it shows some texts, says something by its form and
waits until it shows that; keeps a picture of it.

    browser.py URL PICTURE SAY TEXT...
"""

import base64
import json
import re
import subprocess
import sys
import time
import urllib.request

url, picture, say, *texts = sys.argv[1:]
PATIENCE_S = 60


def ask(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(base + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.load(answer)["value"]


def run(script, *args):
    return ask("POST", f"{session}/execute/sync", {"script": script, "args": args})


def wait(text):
    until = time.monotonic() + PATIENCE_S
    while text not in (shown := run("return document.body.innerText")):
        if time.monotonic() > until:
            sys.exit(f"the page does not show {text!r} but:\n{shown}")
        time.sleep(0.1)


driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
try:
    for line in driver.stdout:
        if found := re.search(r"started successfully on port (\d+)", line):
            base = f"http://127.0.0.1:{found[1]}"
            break
    options = {"args": ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=500,600"]}
    wanted = {"browserName": "chrome", "goog:chromeOptions": options}
    opened = ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
    session = f"/session/{opened['sessionId']}"
    ask("POST", f"{session}/url", {"url": url})
    for text in texts:
        wait(text)
    run("const [form] = document.forms; form.text.value = arguments[0]; form.requestSubmit()", say)
    wait(say)
    with open(picture, "wb") as file:
        file.write(base64.b64decode(ask("GET", f"{session}/screenshot")))
    ask("DELETE", session)
finally:
    driver.terminate()
