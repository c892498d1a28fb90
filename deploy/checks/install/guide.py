"""Writes the files of a guide, as its reader would: with other ports, and with the SDK from npm in
the place of the network's.

    guide.py PAGE SDK FOLDER CLIENTS API BACKEND
"""

import pathlib
import re
import sys

page, sdk, folder = map(pathlib.Path, sys.argv[1:4])
clients, api, backend = sys.argv[4:]
PLACES = [
    ("127.0.0.1:8000", f"127.0.0.1:{clients}"),
    ("127.0.0.1:8001", f"127.0.0.1:{api}"),
    ("127.0.0.1:3000", f"127.0.0.1:{backend}"),
    ('"127.0.0.1", 3000', f'"127.0.0.1", {backend}'),
]
SCRIPT = re.compile(r'<script src="https://unpkg\.com/centrifuge@[^"]*"></script>')

files = re.findall(r"^<!-- file (\S+) -->\n```\w+\n(.*?)^```$", page.read_text(), re.M | re.S)
assert [name for name, _ in files] == ["throng.toml", "backend.py", "chat.html"], files
for name, text in files:
    for here, there in PLACES:
        text = text.replace(here, there)
    if name == "chat.html":
        text, found = SCRIPT.subn(lambda _: f"<script>{sdk.read_text()}</script>", text)
        assert found == 1, "the page has no SDK"
    (folder / name).write_text(text)
