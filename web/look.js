// What an operator looks up and does: channels and who is in them, refusals, the configuration.
// Nothing is asked before its tab is opened, and again only when somebody says so.
const LISTED_MAX = 500;

/** A call of the server API; its result, or an error in words. */
async function call(method, params) {
  const response = await fetch(`api/${method}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(params),
  });
  return answered(response);
}

async function page(path) {
  return answered(await fetch(path, { cache: "no-store" }));
}

async function answered(response) {
  const text = await response.text();
  if ([401, 403].includes(response.status)) lock();
  if (!response.ok) throw new Error(`${response.status} ${text.trim() || response.statusText}`);
  const answer = JSON.parse(text);
  if (answer.error) throw new Error(answer.error.message);
  return answer.result ?? answer;
}

/** Rows of texts and elements under headings, or one sentence if there are none. */
function fill(id, heads, rows, none) {
  const at = $(id);
  if (!rows.length) {
    at.replaceChildren(make("p", { className: "soft", textContent: none }));
    return;
  }
  const head = make("tr", {}, ...heads.map((text) => make("th", { textContent: text })));
  const body = rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell))));
  at.replaceChildren(
    make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)),
  );
}

/** Does something for a button, and says under the tab what came of it. */
async function act(note, what) {
  put(note, "Asking…");
  try {
    put(note, (await what()) || "\u00a0");
  } catch (error) {
    put(note, `Not done: ${error.message}`);
  }
}

const button = (text, label, act) => {
  const made = make("button", { className: "tiny", type: "button", textContent: text });
  made.setAttribute("aria-label", label);
  made.addEventListener("click", act);
  return made;
};
const clock = (ms) => new Date(ms).toISOString().slice(0, 19).replace("T", " ") + "\u2009Z";

// ---- Channels ----

const findChannels = () =>
  act("channels-note", async () => {
    const wanted = $("pattern").value.trim();
    // Plain text is looked for anywhere in the name.
    const pattern = !wanted || /[*?[{]/.test(wanted) ? wanted : `*${wanted}*`;
    // More than are shown, as some are the server's own.
    const limit = LISTED_MAX + 9;
    const { channels, num_found: all } = await call("channels", { pattern, limit });
    // The server's own are none of theirs.
    const others = Object.entries(channels).filter(([name]) => !name.startsWith("throng:"));
    const count = all - (Object.keys(channels).length - others.length);
    const found = others.sort(
      ([a, x], [b, y]) => (y.num_clients ?? 0) - (x.num_clients ?? 0) || (a < b ? -1 : 1),
    );
    const rows = found.slice(0, LISTED_MAX).map(([name, { num_clients: clients }]) => [
      name,
      whole(known(clients)),
      make(
        "div",
        { className: "row" },
        button("Open", `Open ${name}`, () => openChannel(name)),
        follower("channel", name),
      ),
    ]);
    const none = "No channel with subscribers has such a name.";
    fill("channels", ["Channel", "Subscribers", ""], rows, none);
    const text = `${whole(count)} channel${count === 1 ? "" : "s"} with subscribers`;
    return count > rows.length ? `${text}, the ${rows.length} busiest here` : text;
  });

async function openChannel(name) {
  $("one").hidden = false;
  put("one-name", name);
  $("channel").value = name;
  renderCurl();
  await Promise.all([members(name), history(name)]);
  $("one").scrollIntoView({ block: "nearest" });
}

const members = (name) =>
  act("members-note", async () => {
    $("members").replaceChildren();
    const found = await call("connections", { channel: name, limit: FOUND_MAX });
    fillMembers(name, found);
    return told(found, "subscriber");
  });

const history = (name) =>
  act("history-note", async () => {
    $("history").replaceChildren();
    const { publications, offset, epoch } = await call("history", {
      channel: name,
      limit: 20,
      reverse: true,
    });
    const rows = (publications ?? []).map(({ offset: at, data }) => [
      String(at),
      JSON.stringify(data),
    ]);
    fill("history", ["Offset", "Data"], rows, "Nothing is kept.");
    return `position ${offset ?? 0} in epoch ${epoch}`;
  });

const disconnectUser = (event) => {
  event.preventDefault();
  const user = $("who").value;
  void act("who-note", async () => {
    await call("disconnect", { user });
    return `All connections of ${user} were told to go.`;
  });
};

// ---- Refusals and configuration ----

const showRefusals = () =>
  act("refusals-note", async () => {
    const { refusals } = await page("refusals");
    const rows = refusals.map(({ time_unix_ms: t, address, user, what, object, why }) => [
      clock(t),
      address || "–",
      user || "–",
      `${what} ${object}`,
      why,
    ]);
    const heads = ["When", "Address", "User", "Asked", "Why not"];
    fill("refusals", heads, rows, "Nobody was refused since the start.");
    return rows.length ? "The newest first; the log has all of them (throng::refused)." : "";
  });

let configured = [];
function renderConfig() {
  const wanted = $("option").value.trim().toLowerCase();
  const rows = configured
    .filter(({ option }) => option.includes(wanted))
    .map(({ option, value }) => [option, value ?? "not set"]);
  fill("config", ["Option", "In force"], rows, "No option has such a name.");
}
const showConfig = () =>
  act("config-note", async () => {
    configured = (await page("config")).options;
    renderConfig();
    return "As it is in force now, after the last reload. Secrets are hidden.";
  });

// ---- Tabs (WAI-ARIA Authoring Practices: tabs) ----

const TABS = [
  ["channels-tab", "channels-view", findChannels],
  ["connections-tab", "connections-view", findConnections],
  ["follow-tab", "follow-view", () => {}],
  ["slow-tab", "slow-view", showSlow],
  ["nodes-tab", "nodes-view", showNodes],
  ["refusals-tab", "refusals-view", showRefusals],
  ["config-tab", "config-view", showConfig],
];

function choose(index) {
  TABS.forEach(([tab, view], i) => {
    $(tab).setAttribute("aria-selected", String(i === index));
    $(tab).tabIndex = i === index ? 0 : -1;
    $(view).hidden = i !== index;
  });
  void TABS[index][2]();
}

function buildLook() {
  TABS.forEach(([tab], i) => {
    $(tab).addEventListener("click", () => choose(i));
    $(tab).addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      let next = i;
      do next = (next + step + TABS.length) % TABS.length;
      while ($(TABS[next][0]).hidden);
      choose(next);
      $(TABS[next][0]).focus();
    });
  });
  $("find").addEventListener("submit", (event) => {
    event.preventDefault();
    void findChannels();
  });
  $("kick").addEventListener("submit", disconnectUser);
  $("option").addEventListener("input", renderConfig);
  $("refusals-again").addEventListener("click", showRefusals);
  $("seek").addEventListener("submit", (event) => {
    event.preventDefault();
    void findConnections();
  });
  $("slow-again").addEventListener("click", showSlow);
  $("nodes-again").addEventListener("click", showNodes);
}
