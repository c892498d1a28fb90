"""A server to measure, good clients of it, and what both say."""

import json
import pathlib
import subprocess
import sys
import time
import urllib.request

PATIENCE_S = 60
SECRET = "0123456789abcdef0123456789abcdef"


def fail(why):
    print(f"{pathlib.Path(sys.argv[0]).parent.name}: {why}", file=sys.stderr)
    sys.exit(2)


class Server:
    """A `throng serve` with these arguments, whose API is at a port."""

    def __init__(self, throng, api, arguments):
        self.start([throng, "serve", "--log-level", "error", *arguments], api)

    def start(self, command, api):
        self.api = f"127.0.0.1:{api}"
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.counters()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    fail("the server does not start")
                time.sleep(0.1)

    def counters(self):
        with urllib.request.urlopen(f"http://{self.api}/metrics", timeout=PATIENCE_S) as answer:
            lines = answer.read().decode().splitlines()
        series = (line.rsplit(" ", 1) for line in lines if line and line[0] != "#")
        return {name: float(value) for name, value in series}

    def process_says(self, name):
        return pathlib.Path(f"/proc/{self.process.pid}/{name}").read_text()

    def rss(self):
        return int(self.process_says("statm").split()[1]) * 4096

    def cpu_s(self):
        fields = self.process_says("stat").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / 100

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(PATIENCE_S)


class Guarded(Server):
    """A server with the usual limits, at a port in the clear, TLS and the API on the next two."""

    def __init__(self, throng, port, folder, listen="", arguments=()):
        self.plain, self.tls = f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"
        key, certificate = folder / "key.pem", folder / "certificate.pem"
        make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        make += ["-nodes", "-days", "60", "-subj", "/CN=localhost"]
        make += ["-keyout", str(key), "-out", str(certificate)]
        try:
            subprocess.run(make, check=True, capture_output=True)
        except FileNotFoundError:
            fail("openssl is missing")
        config = folder / "throng.toml"
        # An address in trusted_proxies makes those of private networks count, as those of the
        # internet do.
        config.write_text(
            f'[listen]\nclient = ["{self.plain}", "tls://{self.tls}"]\n'
            f'api = "127.0.0.1:{port + 2}"\ntrusted_proxies = ["192.0.2.1"]\n{listen}'
            f'[tls]\ncertificate = "{certificate}"\nkey = "{key}"\n'
            f'[auth]\nhmac_secret = "{SECRET}"\nanonymous = true\n'
            f'[channel]\nanonymous_subscribe = true\n'
        )
        super().__init__(throng, port + 2, ["--config", str(config), *arguments])


def start_bench(throng, url, clients, *more):
    command = [throng, "bench", "sub", "--url", url, "--clients", str(clients), "--json", *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def results(run):
    """What a run of `throng bench` has found, once it has ended."""
    out, err = run.communicate()
    try:
        return json.loads(out)
    except json.JSONDecodeError:
        fail(f"throng bench said: {err or out}")


def percentile_us(found, wanted):
    percentiles = (found["totals"]["delivery"] or {}).get("percentiles_us", [])
    values = [value for percent, value in percentiles if percent == wanted]
    return values[0] if values else fail("nothing was measured")


def lost(found):
    totals = found["totals"]
    return sum(totals["counters"]["lost"].values()) + totals["deliveries"]["missing"]


def doubts(found):
    """Reasons for which a run of `throng bench` is not to be believed, if there are some."""
    verdict = found["verdict"]
    is_valid = verdict["verdict"] == "valid"
    return "" if is_valid else f"{verdict['verdict']}: {'; '.join(verdict.get('reasons', []))}"
