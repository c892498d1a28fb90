// Words and numbers on the page: lamps, facts, lists.
function lamp(id, tone, word, more) {
  const at = $(id),
    aged = at.classList.contains("aged");
  const name = `lamp${aged ? " aged" : ""}${tone ? ` ${tone}` : ""}`;
  if (at.className !== name) at.className = name;
  put(at.children[1], word);
  put(at.children[2], more || "\u00a0");
  // What does not fit is cut off; the pointer shows it whole.
  if (at.title !== more) at.title = more;
}

function renderLink() {
  const next = link.source
    ? "trying now"
    : `next try in ${Math.max(1, Math.ceil((link.retryAt - clockMs()) / 1000))}\u2009s`;
  $("ask").hidden = link.phase !== "locked";
  renderLeave();
  document.body.classList.toggle("stale", link.phase !== "live" && samples.length > 0);
  if (link.phase === "live") lamp("link", "good", "Live", location.host);
  else if (link.phase === "locked")
    lamp("link", "warn", "Key needed", "the server asks for an API key");
  else if (link.phase === "lost") {
    const drained = latest()?.raw.draining ? "after draining" : link.reason;
    lamp(
      "link",
      "bad wait",
      `Lost ${span((clockMs() - link.sampleAt) / 1000)} ago`,
      `${drained} · ${next}`,
    );
  } else if (link.source)
    lamp(
      "link",
      "wait",
      "Connecting",
      link.opened ? "waiting for the first sample" : location.host,
    );
  else lamp("link", "warn wait", "Connecting", `${link.reason} · ${next}`);
  renderTitle();
}

/** Where API keys are set, who sees numbers has signed in. */
function renderLeave() {
  $("leave").hidden = link.phase !== "live" || !latest()?.raw.access?.api_keys;
}

function renderTitle() {
  document.title =
    { live: `${whole(latest()?.total ?? null)} live · `, lost: "Lost · " }[link.phase]?.concat(
      "Throng",
    ) ?? "Throng";
}

const LAMPS = [
  ["intake", "Accepting"],
  ["drain", "Drain"],
  ["drops", "Dropped deliveries"],
  ["slow", "Slow consumers"],
  ["access", "Access"],
];
const SHORT = { "drop-oldest": "oldest", "latest-only": "latest" };

function renderLamps(s) {
  const { raw, open, limit } = s,
    refused = known(raw.refused_per_s) ?? 0;
  if (raw.accept_paused)
    lamp(
      "intake",
      "bad",
      "Paused",
      open !== null && limit ? `${rate(open)} of ${rate(limit)} descriptors` : "a limit is reached",
    );
  else if (raw.draining) lamp("intake", "warn", "No", "draining");
  else if (refused > 0) lamp("intake", "warn", "Refusing", `${rate(refused)} a second`);
  else lamp("intake", "good", "Yes", "none refused");
  if (raw.draining) lamp("drain", "warn", "Draining", `${whole(s.total)} connections left`);
  else lamp("drain", "", "No", "in service");
  // Red while it happens, amber once it has happened: somebody has to know, but no longer to run.
  const shed = sumSince("shed", 10_000),
    d = raw.dropped ?? {};
  const split = Object.entries(d)
    .filter(([, n]) => n > 0)
    .map(([policy, n]) => `${SHORT[policy] ?? policy} ${rate(n)}`)
    .join(" · ");
  lamp(
    "drops",
    shed ? "bad" : s.dropped ? "warn" : "",
    raw.dropped ? whole(s.dropped) : "–",
    split || (raw.dropped ? "nothing shed since the start" : ""),
  );
  const slow = known(raw.slow_consumers),
    slowed = sumSince("slowed", RECENT_MS);
  lamp(
    "slow",
    sumSince("slowed", 10_000) ? "bad" : slow ? "warn" : "",
    whole(slow),
    slow ? `${whole(slowed)} in the last 5\u2009min` : slow === 0 ? "every queue kept up" : "",
  );
  renderAccess(raw);
}

/** What clients need, and below what callers of the server API need. */
function renderAccess({ open_mode: isOpen, access }) {
  if (!access) return lamp("access", "", "–", "");
  const { tokens, anonymous, api_keys: keys } = access;
  if (isOpen) return lamp("access", "note", "Open mode", "no keys: open to all");
  const [may, must] = tokens
    ? ["Token optional", "Token needed"]
    : ["No token needed", "Tokens refused"];
  const tone = !keys ? "warn" : anonymous ? "note" : "good";
  lamp("access", tone, anonymous ? may : must, keys ? "API: key needed" : "API: no key needed");
}

function renderHero(s) {
  const raw = s.raw,
    refused = known(raw.refused_per_s);
  put("total", whole(s.total));
  put("opened", rate(known(raw.connections_per_s)));
  put("closed", rate(known(raw.closed_per_s)));
  put("refused", rate(refused));
  $("refused-box").className = refused > 0 ? "hot-warn" : "";
  const holds = known(raw.holds_connections),
    share = holds ? (100 * s.total) / holds : null;
  const bar = $("bar"),
    room = Math.max(holds || 0, s.total, 1);
  s.by.forEach((n, i) => {
    bar.children[i].style.width = `${(100 * n) / room}%`;
    // One connection in a million is still there to be seen.
    bar.children[i].style.minWidth = n ? "2px" : "0";
    put($("split").children[i].lastChild, whole(n));
  });
  bar.setAttribute(
    "aria-valuenow",
    share === null ? "0" : String(Math.min(100, Math.round(share))),
  );
  const small = share !== null && share > 0 && share < 0.1 ? "under 0.1\u2009%" : percent(share);
  const text =
    share === null
      ? "What this machine holds is not known"
      : `${small} of the ${whole(holds)} that this machine holds`;
  const first = raw.binds_first,
    what = LIMITS[first];
  put("capacity", text);
  $("capacity").className = `line ${share >= 95 ? "hot-bad" : share >= 80 ? "hot-warn" : ""}`;
  put("binds", first ? `${first} binds first${what ? `: ${what}` : ""}` : "\u00a0");
  $("binds").title = first ? "throng doctor tells how to lift it." : "";
  bar.setAttribute("aria-valuetext", text);
}

// Title, then rows of name, value and what the pointer is told.
const per = (a, b) => (known(a) === null || !b ? "–" : rate(Math.round((10 * a) / b) / 10));
const LISTS = [
  [
    "Channels",
    [
      ["Channels", ({ raw }) => whole(known(raw.channels)), "With a subscriber or a history"],
      ["Subscriptions", ({ raw }) => whole(known(raw.subscriptions))],
      ["per connection", ({ raw, total }) => per(raw.subscriptions, total)],
      [
        "Fan-out",
        ({ raw }) => {
          const by = per(raw.deliveries_per_s, raw.publications_per_s);
          return by === "–" ? by : `×\u2009${by}`;
        },
        "Deliveries for each publication, now",
      ],
      [
        "History",
        ({ raw }) =>
          known(raw.history_publications) === null
            ? "–"
            : `${whole(raw.history_publications)} kept`,
        "Publications kept for clients that come back",
      ],
      ["History memory", ({ raw }) => bytes(known(raw.history_bytes))],
    ],
  ],
  [
    "Process",
    [
      ["Memory", ({ raw }) => bytes(known(raw.memory_bytes)), "Resident memory of the process"],
      [
        "Descriptors",
        ({ open, limit }) => (limit === null ? whole(open) : `${rate(open)} of ${rate(limit)}`),
      ],
      [
        "of the limit",
        ({ open, limit }) => percent(open === null || !limit ? null : (100 * open) / limit),
      ],
      [
        "Turn, p99",
        ({ raw }) => micros(known(raw.turn_p99_us)),
        "99 of 100 turns of a shard's loop take no longer",
      ],
      ["Bytes in", ({ raw }) => byteRate(known(raw.bytes_in_per_s))],
      ["Server time", ({ t }) => new Date(t).toISOString().slice(11, 19) + "\u2009Z"],
    ],
  ],
];
const listed = [];

function buildLists() {
  for (const [title, rows] of LISTS) {
    const list = make(
      "dl",
      {},
      ...rows.map(([name, value, told = ""]) => {
        const at = make("dd", { textContent: "–" });
        listed.push([at, value]);
        return make("div", { title: told }, make("dt", { textContent: name }), at);
      }),
    );
    $("lists").append(
      make(
        "section",
        { className: "panel list aged", ariaLabel: title },
        make("h2", { textContent: title }),
        list,
      ),
    );
  }
}

function renderFacts(s) {
  for (const [at, value] of listed) put(at, value(s));
  put("version", s.raw.version ? `v${s.raw.version}` : "\u00a0");
  put("uptime", span(known(s.raw.uptime_s)));
  put("shards", whole(known(s.raw.shards)));
  // A process id is a name and not a quantity.
  put("pid", known(s.raw.pid) === null ? "–" : String(s.raw.pid));
  needKeys(s.raw.access);
  void fillListener();
  renderLeave();
}
