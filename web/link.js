// Samples from the server: how numbers are written, what is kept of the last hour, and the
// link that brings one a second.
"use strict";
const KEPT_MS = 3_600_000,
  RECENT_MS = 300_000;
// What the charts show of it.
let windowMs = RECENT_MS;
// Samples come once a second; a longer silence is a hole in the charts, and this long a one is a
// lost link.
const HOLE_MS = 2_500,
  SILENCE_MS = 5_000,
  FIRST_SAMPLE_MS = 10_000,
  RETRY_MS_MAX = 10_000;
const TRANSPORTS = [
  ["websocket", "WebSocket"],
  ["sse", "SSE"],
  ["stream", "Stream"],
  ["http", "HTTP"],
];
// What `throng doctor` calls the limits.
const LIMITS = {
  nofile: "descriptors of one process",
  nr_open: "ceiling of nofile",
  "file-max": "open files of the machine",
  max_user_watches: "epoll registrations of one user",
  MemAvailable: "memory of the machine",
  "memory.max": "memory of the control group",
  tcp_mem: "the kernel's memory for TCP",
  ip_local_port_range: "source ports",
  nf_conntrack_max: "connections that netfilter tracks",
};

const $ = (id) => document.getElementById(id);
const put = (id, text) => {
  const at = typeof id === "string" ? $(id) : id;
  if (at.textContent !== text) at.textContent = text;
};
const make = (tag, props = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), props);
  made.append(...children);
  return made;
};
const say = (text) => put("say", text);

// ---- Numbers ----

// Anything else (null, a missing field, NaN) is unknown, and shown as a dash rather than as zero.
const known = (value) => (typeof value === "number" && Number.isFinite(value) ? value : null);
const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const whole = (value) => (value === null ? "–" : grouped.format(value));

function scaled(value, units, below) {
  if (value === null) return "–";
  let step = 0;
  // 999.5 would round to 1,000 of the smaller unit.
  while (step < units.length - 1 && Math.abs(value) >= (step ? 999.5 : below)) {
    value /= 1000;
    step += 1;
  }
  const digits = step
    ? Math.abs(value) < 99.95
      ? 1
      : 0
    : Number.isInteger(value) || Math.abs(value) >= 99.95
      ? 0
      : 1;
  const text = step || digits ? value.toFixed(digits) : grouped.format(value);
  return units[step] ? `${text}\u2009${units[step]}` : text;
}
const rate = (value) => scaled(value, ["", "k", "M", "G"], 9_999.5);
const bytes = (value) => scaled(value, ["B", "kB", "MB", "GB", "TB"], 999.5);
const byteRate = (value) => (value === null ? "–" : `${bytes(value)}/s`);
const percent = (value) =>
  value === null
    ? "–"
    : `${value >= 99.95 || value === 0 ? value.toFixed(0) : value.toFixed(1)}\u2009%`;
const micros = (value) =>
  value === null
    ? "–"
    : value < 10_000
      ? `${whole(value)}\u2009µs`
      : `${rate(value / 1000)}\u2009ms`;

function span(seconds) {
  if (seconds === null) return "–";
  const s = Math.max(0, Math.floor(seconds)),
    two = (n) => String(n).padStart(2, "0");
  if (s < 60) return `${s}\u2009s`;
  if (s < 3600) return `${Math.floor(s / 60)}\u2009min ${two(s % 60)}\u2009s`;
  if (s < 86400) return `${Math.floor(s / 3600)}\u2009h ${two(Math.floor(s / 60) % 60)}\u2009min`;
  return `${Math.floor(s / 86400)}\u2009d ${two(Math.floor(s / 3600) % 24)}\u2009h`;
}

// ---- Samples ----

/** Oldest first; times are the server's, so that a tab that slept does not bend the axis. */
const samples = [];
const latest = () => samples.at(-1);

function sampleOf(raw) {
  const t = known(raw.time_unix_ms);
  if (t === null) return null;
  const by = TRANSPORTS.map(([name]) => known(raw.connections?.[name]) ?? 0);
  const total = by.reduce((sum, n) => sum + n, 0);
  const dropped = Object.values(raw.dropped ?? {}).reduce((sum, n) => sum + (known(n) ?? 0), 0);
  return {
    t,
    raw,
    by,
    total,
    dropped,
    shed: 0,
    slowed: 0,
    open: known(raw.descriptors?.open),
    limit: known(raw.descriptors?.max),
  };
}

function remember(sample) {
  // A clock that was set back, or a second copy: what claims to be later than now is not worth
  // keeping.
  while (samples.length && latest().t >= sample.t) samples.pop();
  const before = latest();
  // In a container every process is number 1, so the uptime has to say it too.
  const same =
    before && before.raw.pid === sample.raw.pid && !(sample.raw.uptime_s < before.raw.uptime_s);
  // Counters begin anew with the process, so a difference needs two samples of one.
  sample.restart = Boolean(before) && !same;
  sample.shed = same ? Math.max(0, sample.dropped - before.dropped) : 0;
  sample.slowed = same
    ? Math.max(0, (known(sample.raw.slow_consumers) ?? 0) - (known(before.raw.slow_consumers) ?? 0))
    : 0;
  samples.push(sample);
  // One more than the window, for the line that enters it from the left.
  while (samples.length > 1 && samples[1].t < sample.t - KEPT_MS) samples.shift();
}

const sumSince = (field, ms) => {
  const from = latest().t - ms;
  return samples.reduce((sum, s) => (s.t > from ? sum + s[field] : sum), 0);
};

/** What the server has kept from before this page, as samples with only what is drawn. */
async function remembered() {
  try {
    const response = await fetch("stats/hour", { cache: "no-store" });
    if (!response.ok) return;
    const { every_ms: every, fields, moments } = await response.json();
    const past = moments.map((moment) => {
      const raw = Object.fromEntries(fields.map((name, i) => [name, moment[i]]));
      raw.connections = Object.fromEntries(TRANSPORTS.map(([name]) => [name, raw[name]]));
      raw.cpu_percent = raw.cpu_per_mille / 10;
      return { ...sampleOf(raw), every, open: null, limit: null };
    });
    const first = samples[0]?.t ?? Infinity;
    samples.unshift(...past.filter(({ t }) => t < first));
    soon();
  } catch {
    /* The charts begin with this page, then. */
  }
}

// ---- Link ----

const link = {
  phase: "connecting",
  source: null,
  attempt: 0,
  startedAt: 0,
  opened: false,
  sampleAt: 0,
  retryAt: 0,
  reason: "",
};
const clockMs = () => performance.now();

function connect() {
  const source = new AbortController();
  Object.assign(link, {
    source,
    attempt: link.attempt + 1,
    startedAt: clockMs(),
    opened: false,
    retryAt: 0,
  });
  // Whoever took the source away has said why.
  void follow(source).then((why) => {
    if (link.source === source) lose(why);
  });
  renderLink();
}

/** Hands on the events of a stream that have no name and one line of data, until it ends. */
async function hear(response, take) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = "", read; !(read = await reader.read()).done;) {
    const events = (rest + read.value).split("\n\n");
    rest = events.pop();
    for (const event of events)
      if (!/^event:/m.test(event)) take(/^data: (.*)/m.exec(event)?.[1]);
  }
}

/** Reads samples until they end; answers why. An EventSource would not tell the status. */
async function follow(source) {
  try {
    const response = await fetch("sse?channel=throng:stats", {
      signal: source.signal,
      cache: "no-store",
    });
    if ([401, 403].includes(response.status)) {
      if (link.source === source) lock();
      return "no key";
    }
    if (!response.ok) return `answered ${response.status}`;
    link.opened = true;
    renderLink();
    await hear(response, take);
    return "stream ended";
  } catch {
    return link.opened ? "stream ended" : "no answer";
  }
}

function lose(reason) {
  link.source?.abort();
  link.source = null;
  if (link.phase === "live") {
    link.attempt = 0;
    say("Connection to the server lost. Reconnecting.");
  }
  if (link.phase !== "connecting") link.phase = "lost";
  link.reason = reason;
  link.retryAt = clockMs() + Math.min(RETRY_MS_MAX, 1000 * 2 ** Math.min(link.attempt, 4));
  renderLink();
  soon();
}

function lock() {
  link.source?.abort();
  Object.assign(link, { phase: "locked", source: null, retryAt: Infinity });
  say("The server asks for an API key.");
  put("key-title", "This server asks for an API key");
  if (!$("key-dialog").open) $("key-dialog").showModal();
  renderLink();
  void askProvider();
}

// A sign-in opens the page once, or a role that does not show it would open it for ever.
let isLetIn = false;

/** Offers a sign-in by an OpenID provider, if there is one, and waits for one that is under way. */
async function askProvider() {
  try {
    const response = await fetch("session/state", { cache: "no-store" });
    const { provider, state, why } = await response.json();
    $("provider").hidden = !provider;
    if (state === "refused") put("key-note", `Nobody signed in: ${why}.`);
    else if (state === "pending") {
      put("key-note", "Asking your provider…");
      setTimeout(askProvider, 300);
    } else if (state === "done" && !isLetIn) {
      isLetIn = true;
      unlock();
    }
  } catch {
    /* A key signs in all the same. */
  }
}

function unlock() {
  $("key-dialog").close();
  link.phase = samples.length ? "lost" : "connecting";
  connect();
}

/** Shows the key once; the answer sets a cookie, which scripts cannot read. */
async function signIn(key) {
  let why = "The server could not be reached";
  try {
    const headers = { "X-API-Key": key };
    const { ok, status } = await fetch("session", { method: "POST", headers });
    if (ok) return null;
    why = status === 401 ? "The server refused this API key" : `The server answered ${status}`;
  } catch {
    /* Said below. */
  }
  return why;
}

async function signOut() {
  try {
    await fetch("session", { method: "DELETE" });
  } catch {
    /* The link is lost, then, and says so. */
  }
  lock();
}

function take(text) {
  let sample = null;
  try {
    sample = sampleOf(JSON.parse(text));
  } catch {
    /* Not ours: the silence will be noticed. */
  }
  if (!sample) return;
  if (!samples.length) {
    void remembered();
    // Only one of several has a list of nodes.
    void showNodes();
  }
  if (link.phase !== "live") say(link.phase === "lost" ? "Connected again." : "Live.");
  Object.assign(link, { phase: "live", sampleAt: clockMs(), attempt: 0 });
  const before = latest();
  remember(sample);
  announce(before, sample);
  // A hidden tab has no frames: it keeps its samples and its title, and draws when it is looked at.
  renderTitle();
  soon();
}

/** Only changes are spoken; a number a second would be noise. */
function announce(before, sample) {
  if (sample.raw.draining && !before?.raw.draining) say("The server is draining.");
  else if (sample.raw.accept_paused && !before?.raw.accept_paused)
    say("The server has paused accepting connections.");
  else if (sample.shed && !before?.shed)
    say(`Deliveries are being dropped: ${whole(sample.dropped)} since the start.`);
}

function tick() {
  const now = clockMs();
  if (link.phase === "live" && now - link.sampleAt > SILENCE_MS) lose("silent");
  else if (link.source && link.phase !== "live" && now - link.startedAt > FIRST_SAMPLE_MS)
    lose(link.opened ? "no samples" : "no answer");
  else if (!link.source && now >= link.retryAt) connect();
  if (link.phase !== "live") {
    renderLink();
    soon();
  }
}
