# socketify: uWebSockets as a shared library with Python on top, from PyPI.
set -eu
export PYTHONPATH="$CACHE"

# Loads the shared library too.
version() {
    python3 -c "import socketify, importlib.metadata as m; print(m.version('socketify'))"
}

case $1 in
    prepare)
        version >/dev/null 2>&1 ||
            python3 -m pip install --quiet --upgrade --target "$CACHE" socketify >&2
        echo "socketify $(version) (uWebSockets inside), 1 thread"
        ;;
    start)
        cp "$HERE/socketify.py" "$FOLDER/server.py"
        printf '%s\n' "PYTHONPATH=$CACHE" python3 "$FOLDER/server.py" "$SUBSCRIBE_PORT"
        ;;
esac
