"""What the measurements here run, built from this checkout."""

import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def throng_binary(given):
    """The file of the server: the given one, or a release build."""
    if given:
        return given
    build = ["cargo", "build", "--quiet", "--release", "--package", "throng"]
    subprocess.run(build, cwd=ROOT, check=True)
    ask = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    metadata = subprocess.run(ask, cwd=ROOT, check=True, capture_output=True)
    target = json.loads(metadata.stdout)["target_directory"]
    return str(pathlib.Path(target) / "release" / "throng")
