#!/bin/sh
# Runs a scenario on three agents, each in a network namespace of its own, against a server in a
# fourth; kills one agent on the way, and checks what the results say. Needs root, ip(8) and jq(1);
# leaves nothing behind.
#
#   crates/apps/bench/scripts/agents-in-namespaces.sh path/to/throng [folder]
set -eu

throng=${1:?usage: $0 path/to/throng [folder for results]}
out=${2:-$(mktemp -d)}
[ "$(id -u)" = 0 ] || { echo "network namespaces need root" >&2; exit 2; }
for tool in ip jq; do
    command -v "$tool" >/dev/null || { echo "$tool is missing" >&2; exit 2; }
done

name=tb$$
pids=""
cleanup() {
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    for n in 0 1 2 3; do ip netns del "$name-$n" 2>/dev/null || true; done
    ip link del "$name" 2>/dev/null || true
}
trap cleanup EXIT INT TERM

# One bridge; the server is 10.213.0.10, the agents are .11 to .13, the controller is this namespace
# at .1.
ip link add "$name" type bridge
ip addr add 10.213.0.1/24 dev "$name"
ip link set "$name" up
for n in 0 1 2 3; do
    ip netns add "$name-$n"
    ip link add "$name-v$n" type veth peer name eth0 netns "$name-$n"
    ip link set "$name-v$n" master "$name" up
    ip -n "$name-$n" addr add "10.213.0.1$n/24" dev eth0
    ip -n "$name-$n" link set eth0 up
    ip -n "$name-$n" link set lo up
done

# The server listens beyond loopback, so it wants keys or the word that it needs none.
mkdir -p "$out"
cat >"$out/server.toml" <<TOML
[listen]
client = ["10.213.0.10:8000"]
api = "10.213.0.10:8001"
[auth]
insecure = true
TOML
ip netns exec "$name-0" "$throng" serve --config "$out/server.toml" >"$out/server.log" 2>&1 &
server=$!
pids="$pids $server"
until grep -q "connect" "$out/server.log"; do
    kill -0 "$server" 2>/dev/null || { cat "$out/server.log" >&2; exit 1; }
    sleep 0.1
done
for n in 1 2 3; do
    ip netns exec "$name-$n" "$throng" bench agent --listen "10.213.0.1$n:8092" --token secret \
        >"$out/agent-$n.log" 2>&1 &
    pids="$pids $!"
    victim=$!
done
for n in 1 2 3; do
    until grep -q "agent listens" "$out/agent-$n.log"; do
        kill -0 "$victim" || { cat "$out"/agent-*.log >&2; exit 1; }
        sleep 0.1
    done
done

cat >"$out/scenario.toml" <<'TOML'
name = "three agents"
targets = ["ws://10.213.0.10:8000/ws?channel={channel:url}"]
channels = "room-{n%30}"
sources = "10.213.0.11-13"
scenario = "fan-out"
duration = "4s"
[connect]
clients = 300
rate = "300/s"
[publish]
to = "http://10.213.0.10:8001"
rate = "60/s"
TOML

run() { # run FOLDER: may end with 12 where this machine is slow, which is not what is checked here.
    "$throng" bench run "$out/scenario.toml" --plain --out "$1" \
        --agents 10.213.0.11,10.213.0.12,10.213.0.13 \
        --agents-token secret 2>"$1.log" || [ $? = 12 ] || { cat "$1.log" >&2; exit 1; }
}
expect() { # expect FOLDER FILTER: the filter must hold of its results.
    jq -e "$2" "$1/results.json" >/dev/null || { echo "not so in $1: $2" >&2; exit 1; }
}

run "$out/all"
expect "$out/all" '[.agents[].lost] == [false, false, false]'
expect "$out/all" '[.agents[].alive] == [100, 100, 100]'
expect "$out/all" '.totals.deliveries.missing == 0 and .totals.deliveries.duplicates == 0'
expect "$out/all" '.totals.deliveries.distinct == .totals.counters.published * 10'

(sleep 4; kill -9 "$victim") &
run "$out/lost"
expect "$out/lost" '[.agents[].lost] == [false, false, true]'
expect "$out/lost" '.totals.counters.lost.agent_lost == 100'
expect "$out/lost" '[.agents[].alive][:2] == [100, 100]'
echo "all as expected; results in $out"
