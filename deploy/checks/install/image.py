"""Unpacks a container image as an engine does. Fails if a digest or a size is not what it says.

    image.py FOLDER_OF_THE_UNPACKED_TAR ROOT_TO_FILL
"""

import gzip
import hashlib
import io
import json
import pathlib
import sys
import tarfile

image, root = map(pathlib.Path, sys.argv[1:])


def blob(described):
    kind, digest = described["digest"].split(":")
    content = (image / "blobs" / kind / digest).read_bytes()
    assert hashlib.sha256(content).hexdigest() == digest, described
    assert len(content) == described["size"], described
    return content


index = json.loads((image / "index.json").read_text())
assert json.loads((image / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}
manifest = json.loads(blob(index["manifests"][0]))
config = json.loads(blob(manifest["config"]))
for described, identifier in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
    layer = gzip.decompress(blob(described))
    assert "sha256:" + hashlib.sha256(layer).hexdigest() == identifier
    tarfile.open(fileobj=io.BytesIO(layer)).extractall(root)
assert config["config"]["User"] == "65532:65532"
assert config["config"]["Entrypoint"] == ["/usr/bin/throng"]
docker = json.loads((image / "manifest.json").read_text())[0]
assert all((image / path).exists() for path in [docker["Config"], *docker["Layers"]])
