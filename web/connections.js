// Connections of clients: found by user, address and transport, those that are slow, what can be
// done about them; and the nodes that they are connected to.
const FOUND_MAX = 200;
const TITLES = Object.fromEntries(TRANSPORTS);

/** How many were found, and whether all of them are here. */
function told({ connections, num_found: found, cut }, what) {
  const all = `${cut ? "at least " : ""}${whole(found)} ${what}${found === 1 ? "" : "s"}`;
  const shown = found > connections.length ? `, ${connections.length} of them here` : "";
  const left = cut ? ". Not every address was looked at: name a part of the user, too" : "";
  return `${all}${shown}${left}`;
}

/** Does something to a connection, and says so; what it was done to leaves the page. */
const done = (note, method, params, at, text) =>
  act(note, async () => {
    await call(method, params);
    at().remove();
    return text;
  });

const nameOf = ({ user, client }) => (user ? `${user} (${client})` : client);

/** Ends one subscription. */
const unsubscriber = (text, row, channel, note, gone) => {
  const { user, client } = row;
  const at = button(text, `Unsubscribe ${nameOf(row)} from ${channel}`, () =>
    done(
      note,
      "unsubscribe",
      { user, client, channel },
      () => gone(at),
      `${nameOf(row)} was unsubscribed from ${channel}.`,
    ),
  );
  return at;
};

/** Ends a connection. */
const disconnecter = (row, note) => {
  const { user, client } = row;
  const at = button("Disconnect", `Disconnect ${nameOf(row)}`, () =>
    done(
      note,
      "disconnect",
      { user, client },
      () => at.closest("tr"),
      `${nameOf(row)} was disconnected.`,
    ),
  );
  return at;
};

const followers = ({ user }) => (user ? [follower("user", user)] : []);

/** Rows of connections with buttons. */
function fillConnections(id, note, { connections }, none) {
  const nodes = new Set(connections.map(({ node }) => node)).size > 1;
  const rows = connections.map((row) => {
    const channels = row.channels.map((channel) =>
      unsubscriber(`${channel} ×`, row, channel, note, (at) => at),
    );
    const more = row.num_subs - row.channels.length;
    if (more > 0) channels.push(make("span", { textContent: `and ${whole(more)} more` }));
    return [
      row.user || "(no user)",
      row.address || "–",
      TITLES[row.transport] ?? row.transport,
      ...(nodes ? [row.node] : []),
      row.queued_bytes ? bytes(row.queued_bytes) : "–",
      make("span", { className: "row" }, ...channels),
      row.client,
      make("span", { className: "row" }, ...followers(row), disconnecter(row, note)),
    ];
  });
  const heads = ["User", "Address", "Transport", ...(nodes ? ["Node"] : []), "Waiting"];
  fill(id, [...heads, "Channels", "Id", ""], rows, none);
}

/** The subscribers of one channel. */
function fillMembers(channel, { connections }) {
  const note = "members-note";
  const rows = connections.map((row) => {
    const leave = unsubscriber("Unsubscribe", row, channel, note, (at) => at.closest("tr"));
    const acts = make("span", { className: "row" }, leave, disconnecter(row, note));
    return [row.user || "(no user)", row.address || "–", row.client, acts];
  });
  fill("members", ["User", "Address", "Id", ""], rows, "Nobody subscribes to it.");
}

const findConnections = () =>
  act("connections-note", async () => {
    const [user, address, transport] = ["user", "address", "transport"].map((name) =>
      $(`seek-${name}`).value.trim(),
    );
    const found = await call("connections", { user, address, transport, limit: FOUND_MAX });
    fillConnections("connections", "connections-note", found, "No client fits.");
    return told(found, "connection");
  });

/** Clients that were closed for being slow, the newest first. */
function fillClosed(closed) {
  const rows = closed.map((row) => {
    const more = row.num_subs - row.channels.length;
    return [
      clock(row.time_unix_ms),
      row.user || "(no user)",
      row.address || "–",
      TITLES[row.transport] ?? row.transport,
      row.channels.join(", ") + (more > 0 ? ` and ${whole(more)} more` : ""),
    ];
  });
  const heads = ["When", "User", "Address", "Transport", "Channels"];
  fill("slow-closed", heads, rows, "Nobody since the start.");
}

const showSlow = () =>
  act("slow-note", async () => {
    const found = await call("connections", { slow: true, limit: FOUND_MAX });
    const none = "Nothing waits for any client: all of them keep up.";
    fillConnections("slow-rows", "slow-note", found, none);
    fillClosed((await page("slow")).closed);
    return found.num_found ? `${told(found, "slow consumer")}, the slowest first` : "";
  });

// ---- Nodes ----

const showNodes = () =>
  act("nodes-note", async () => {
    const { nodes } = await call("info", {});
    $("nodes-tab").hidden = nodes.length < 2;
    const rows = nodes.map((node) => [
      node.uid,
      node.version,
      span(node.uptime),
      whole(node.num_clients),
      whole(node.num_users),
      whole(node.num_channels),
      whole(node.num_subs),
    ]);
    const heads = ["Node", "Version", "Up", "Clients", "Users", "Channels", "Subscriptions"];
    fill("nodes", heads, rows, "No node answers.");
    return `${nodes.length} nodes. This page's numbers above are those of the node that it asks.`;
  });
