// One user or one channel, followed live: what the server tells of it, the newest first. Nothing is
// asked for before somebody follows, and nothing after that stops.
const LINES_MAX = 500;

/** Names of the fields that have columns of their own. */
const COLUMNS = ["time_unix_ms", "event", "shard", "number", "user", "client", "channel"];
const DETAILS = {
  bytes: (value) => bytes(value),
  data: (value) => JSON.stringify(value),
  lost: () => "could not recover",
  recovered: (value) => `recovered ${value}`,
  lag_ms: (value) => `after ${value}\u2009ms`,
  why: (value) => value,
  what: (value) => value,
};

const followed = { source: null, rows: [], numbers: new Map(), lines: 0, frame: 0 };

function detailsOf(line) {
  const told = Object.entries(line).filter(([name]) => !COLUMNS.includes(name));
  return told
    .map(([name, value]) => DETAILS[name]?.(value) ?? `${name.replaceAll("_", " ")} ${value}`)
    .join(" · ");
}

function rowOf(cells) {
  return make("tr", {}, ...cells.map((text) => make("td", { textContent: text })));
}

/** Takes a line of the stream; those that got lost on their way are told, too. */
function heard(text) {
  let line;
  try {
    line = JSON.parse(text);
  } catch {
    return;
  }
  const { time_unix_ms: t, event, shard, number, user, client, channel } = line;
  const lost = number - (followed.numbers.get(shard) ?? 0) - 1;
  followed.numbers.set(shard, number);
  if (lost > 0) followed.rows.unshift(rowOf([clock(t), "lost", "", "", `lines ${lost}`]));
  const who = user && client ? nameOf({ user, client }) : user || client || "";
  const name = event.replaceAll("_", " ");
  followed.rows.unshift(rowOf([clock(t), name, who, channel ?? "", detailsOf(line)]));
  followed.lines += 1;
  followed.frame ||= requestAnimationFrame(drawFollowed);
}

function drawFollowed() {
  followed.frame = 0;
  const at = document.querySelector("#follow-rows tbody");
  at?.prepend(...followed.rows.splice(0));
  while (at?.rows.length > LINES_MAX) at.deleteRow(-1);
  put("follow-count", `${whole(followed.lines)} line${followed.lines === 1 ? "" : "s"}`);
}

function stopFollowing() {
  followed.source?.abort();
  followed.source = null;
  $("follow-stop").disabled = true;
}

async function startFollowing() {
  stopFollowing();
  const source = new AbortController();
  const [kind, name] = [$("follow-kind").value, $("follow-name").value];
  Object.assign(followed, { source, rows: [], numbers: new Map(), lines: 0 });
  put("follow-note", "Asking…");
  put("follow-count", "\u00a0");
  const heads = ["When", "What", "Who", "Channel", "Details"];
  fill("follow-rows", heads, [[]], "");
  document.querySelector("#follow-rows tbody").replaceChildren();
  let why = "The server ended the stream.";
  try {
    const query = new URLSearchParams({ [kind]: name, data: $("follow-data").checked });
    const options = { signal: source.signal, cache: "no-store" };
    const response = await fetch(`follow?${query}`, options);
    if (response.status === 401) lock();
    if (!response.ok) throw new Error(`${response.status} ${(await response.text()).trim()}`);
    $("follow-stop").disabled = false;
    put("follow-note", `Following the ${kind} ${name}, on this node.`);
    await hear(response, heard);
  } catch (error) {
    why = source.signal.aborted ? "Stopped." : `Not followed: ${error.message}`;
  }
  // Whoever follows something else by now has its own note.
  if (followed.source && followed.source !== source) return;
  stopFollowing();
  put("follow-note", why);
}

/** Follows what a row of another tab is about. */
function followThis(kind, name) {
  $("follow-kind").value = kind;
  $("follow-name").value = name;
  choose(TABS.findIndex(([tab]) => tab === "follow-tab"));
  void startFollowing();
}

const follower = (kind, name) =>
  button("Follow", `Follow the ${kind} ${name}`, () => followThis(kind, name));

function buildFollow() {
  $("follow").addEventListener("submit", (event) => {
    event.preventDefault();
    void startFollowing();
  });
  $("follow-stop").addEventListener("click", stopFollowing);
}
