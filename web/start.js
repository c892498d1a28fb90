// The panel that publishes, the dialog for the key, and the start of everything.
// ---- Try it ----

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const pubPath = () => `pub?channel=${encodeURIComponent($("channel").value)}`;
// curl reads a leading @ of other data options as a file name; --data-raw does not.
// Secrets are named, not shown: the page has none, and the screen may be shared.
let needed = { token: false, key: false };
function needKeys(access) {
  const now = { token: access?.tokens && !access.anonymous, key: access?.api_keys };
  if (now.token === needed.token && now.key === needed.key) return;
  needed = now;
  renderCurl();
}
function curlLines() {
  const auth = needed.key ? ' -H "X-API-Key: $API_KEY"' : "";
  const token = needed.token ? ' -H "Authorization: Bearer $TOKEN"' : "";
  const listener = $("listener").value;
  const origin = `${listener.includes("://") ? "" : "http://"}${listener}`;
  const channel = encodeURIComponent($("channel").value);
  const data = quoted($("data").value);
  return {
    receive: `curl -N${token} ${quoted(`${origin}/sse?channel=${channel}`)}`,
    publish: `curl${auth} ${quoted(String(new URL(pubPath(), location)))} \\\n  --data-raw ${data}`,
  };
}
function renderCurl() {
  const lines = curlLines();
  put("curl-receive", lines.receive);
  put("curl-publish", lines.publish);
  const token = needed.token ? " (TOKEN: throng token create)" : ", in a terminal";
  put("receive-note", `1. Receive${token}`);
  put("publish-note", `2. Publish, here or ${needed.key ? "with API_KEY" : "in another"}`);
}

async function publish(event) {
  event.preventDefault();
  put("answer-status", "Publishing…");
  const started = clockMs();
  try {
    const response = await fetch(pubPath(), {
      method: "POST",
      body: $("data").value,
    });
    let text = await response.text();
    const took = Math.round(clockMs() - started);
    try {
      text = JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      /* Shown as it came. */
    }
    put("answer-status", `${response.status} ${response.statusText} · ${took}\u2009ms`);
    put("answer", text || "(empty)");
  } catch {
    put("answer-status", "No answer");
    put("answer", "The server could not be reached.");
  }
}

async function copy(button) {
  const text = curlLines()[button.dataset.copy];
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages over plain HTTP from another machine have no clipboard but this one.
    const box = make("textarea", { value: text, className: "sr" });
    document.body.append(box);
    box.select();
    done = document.execCommand("copy");
    box.remove();
    button.focus();
  }
  put(button, done ? "Copied" : "Failed");
  say(done ? "Copied." : "Copying failed.");
  setTimeout(() => put(button, "Copy"), 1500);
}

// The first TCP address that takes clients, as this page's reader reaches it.
function listenerOf(options) {
  const { value } = options.find(({ option }) => option === "listen.client");
  for (const address of JSON.parse(value)) {
    const [, tls, host, port] = /^(tls:\/\/)?(.*):(\d+)$/.exec(address) ?? [];
    if (!Number(port)) continue;
    const isAny = ["0.0.0.0", "[::]"].includes(host);
    return `${tls ? "https://" : ""}${isAny ? location.hostname : host}:${port}`;
  }
  return `${location.hostname}:8000`;
}
// Called with the first sample, since a server with keys tells its configuration after the sign-in.
let isListenerKnown = false;
async function fillListener() {
  if (isListenerKnown) return;
  isListenerKnown = true;
  try {
    const { options } = await page("config");
    $("listener").value ||= listenerOf(options);
  } catch {
    // A key without the right to read the configuration; the reader knows the address.
  }
  renderCurl();
}

// ---- Start ----

function start() {
  for (const [id, label] of LAMPS) {
    const [name, word, more] = [
      ["label", label],
      ["word", "–"],
      ["more", "\u00a0"],
    ].map(([kind, text]) => make("span", { className: `${kind} line`, textContent: text }));
    $("lamps").append(make("li", { className: "lamp aged", id }, name, word, more));
  }
  for (const [name, title] of TRANSPORTS) {
    const swatch = () => {
      const i = make("i");
      i.style.background = `var(--${name})`;
      return i;
    };
    $("bar").append(swatch());
    $("split").append(
      make(
        "div",
        {},
        make("dt", {}, swatch(), title),
        make("dd", { className: "line", textContent: "–" }),
      ),
    );
  }
  readColors();
  buildCharts();
  buildLists();
  buildLook();
  buildFollow();
  for (const at of document.querySelectorAll("[data-window]"))
    at.addEventListener("click", () => showWindow(Number(at.dataset.window)));
  for (const id of ["channel", "data", "listener"]) $(id).addEventListener("input", renderCurl);
  $("publish").addEventListener("submit", publish);
  for (const button of document.querySelectorAll("[data-copy]"))
    button.addEventListener("click", () => copy(button));
  $("ask").addEventListener("click", () => $("key-dialog").showModal());
  $("key-later").addEventListener("click", () => $("key-dialog").close());
  $("leave").addEventListener("click", signOut);
  $("key-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const why = await signIn($("key").value);
    $("key").value = "";
    if (why) return put("key-title", why);
    unlock();
  });
  matchMedia("(prefers-color-scheme: light)").addEventListener("change", () => {
    readColors();
    drawAll();
  });
  document.addEventListener("visibilitychange", () => {
    // Whoever comes back to look should not wait for the next try.
    if (!document.hidden && !link.source && link.phase !== "locked") link.retryAt = 0;
  });
  renderCurl();
  connect();
  setInterval(tick, 1000);
}
start();
