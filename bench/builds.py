"""What the measurements here run, built from this checkout."""

import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def throng_binary(given):
    """The file of the server: the given one, or a release build."""
    if given:
        return given
    subprocess.run(["cargo", "build", "--quiet", "--release", "--package", "throng"], cwd=ROOT, check=True)
    metadata = subprocess.run(
        ["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=ROOT, check=True, capture_output=True
    )
    return str(pathlib.Path(json.loads(metadata.stdout)["target_directory"]) / "release" / "throng")
