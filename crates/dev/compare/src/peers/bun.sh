# Bun: a JavaScript runtime whose server is uWebSockets, from npm.
set -eu

# The package depends on one package for each kind of processor and C library; npm installs those
# that may fit, and the first that runs does.
binary() {
    for build in "$CACHE"/node_modules/@oven/*/bin/bun; do
        if "$build" --version >/dev/null 2>&1; then echo "$build" && return; fi
    done
    return 1
}

case $1 in
    prepare)
        binary >/dev/null ||
            npm install --ignore-scripts --no-audit --no-fund --prefix "$CACHE" bun@latest >&2
        binary=$(binary) || {
            echo "npm's package bun has no binary that runs on this machine" >&2
            exit 1
        }
        echo "Bun $("$binary" --version) (uWebSockets inside), 1 thread"
        ;;
    start)
        cp "$HERE/bun.js" "$FOLDER/server.js"
        printf '%s\n' "$(binary)" "$FOLDER/server.js" "$SUBSCRIBE_PORT"
        [ -z "$CERTIFICATE" ] || printf '%s\n' "$PUBLISH_PORT" "$CERTIFICATE" "$KEY"
        ;;
esac
