// Charts of the last minutes or the last hour, and the one cursor for all of them.
// `floor` is the smallest top of the scale, so that noise around nothing does not fill the chart.
const CHARTS = [
  {
    id: "connections",
    title: "Connections",
    wide: true,
    of: (s) => s.by,
    colors: TRANSPORTS.map(([name]) => `--${name}`),
    format: rate,
    exact: whole,
    floor: 10,
    capacity: true,
  },
  {
    id: "deliveries",
    title: "Deliveries/s",
    of: (s) => [known(s.raw.deliveries_per_s)],
    format: rate,
    floor: 10,
    marks: true,
  },
  {
    id: "publications",
    title: "Publications/s",
    of: (s) => [known(s.raw.publications_per_s)],
    format: rate,
    floor: 10,
  },
  {
    id: "bytes",
    title: "Bytes out",
    of: (s) => [known(s.raw.bytes_out_per_s)],
    format: byteRate,
    axis: bytes,
    floor: 1000,
  },
  // With few connected, what a server has grown by is its own, and not theirs.
  {
    id: "per",
    title: "Per connection",
    told: "What the process has grown by since its start, divided by its connections, from 100 on",
    of: (s) => [s.total < 100 ? null : known(s.raw.memory_per_connection_bytes)],
    format: bytes,
    floor: 100,
  },
  { id: "cpu", title: "CPU", of: (s) => [known(s.raw.cpu_percent)], format: percent, floor: 4 },
];
// Room for the scale beside the newest value, where no line can run through it.
const GUTTER = 46;
// One cursor for all charts: what happened at that moment, everywhere. Milliseconds before now;
// null is live.
let cursor = null;
let ink = {};

function readColors() {
  const style = getComputedStyle(document.documentElement);
  for (const name of [
    "grid",
    "edge",
    "hole",
    "soft",
    "ink",
    "accent",
    "bad",
    "warn",
    "panel",
    "sans",
    ...TRANSPORTS.map(([t]) => t),
  ])
    ink[`--${name}`] = style.getPropertyValue(`--${name}`).trim();
}

const totalOf = (values) =>
  values.some((v) => v === null) ? null : values.reduce((sum, v) => sum + v, 0);
/** While the link is lost, time goes on, and the charts show the hole. */
const chartNow = () =>
  link.phase === "live" || !latest()
    ? (latest()?.t ?? Date.now())
    : latest().t + (clockMs() - link.sampleAt);

/** The next number whose half is also round. */
function roundTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.2, 1.6, 2, 3, 4, 6, 8, 10].find((step) => step * power >= value * 0.999999) * power;
}

function sampleAt(t) {
  let best = null;
  for (const s of samples)
    if (
      Math.abs(s.t - t) <= holeAfter(s) / 2 &&
      (!best || Math.abs(s.t - t) < Math.abs(best.t - t))
    )
      best = s;
  return best;
}

/** How long a silence is a hole: samples that the server kept are further apart. */
const holeAfter = (s) => Math.max(HOLE_MS, 2 * (s.every ?? 0));

/** Runs of samples without a hole, a restart or an unknown value between them. */
function runsOf(chart) {
  const runs = [];
  let before = null;
  for (const s of samples) {
    const values = chart.of(s),
      is = totalOf(values) !== null;
    if (is) {
      if (!before || s.restart || s.t - before.t > holeAfter(before)) runs.push([]);
      runs.at(-1).push({ t: s.t, values });
    }
    before = is ? s : null;
  }
  return runs;
}

function draw(chart) {
  const { canvas, wide } = chart,
    density = window.devicePixelRatio || 1;
  const width = canvas.clientWidth,
    height = canvas.clientHeight;
  if (!width) return;
  // Setting the size clears the canvas and costs memory, so only when it changed.
  const size = [width, height].map((n) => Math.round(n * density));
  if (canvas.width !== size[0] || canvas.height !== size[1]) [canvas.width, canvas.height] = size;
  const c = canvas.getContext("2d"),
    now = chartNow(),
    runs = runsOf(chart);
  const bottom = height - 16,
    top = wide ? 16 : 8,
    right = width - GUTTER;
  const shown = runs.flat().filter((p) => p.t >= now - windowMs);
  const peak = shown.reduce((most, p) => Math.max(most, totalOf(p.values)), 0);
  const scale = roundTop(Math.max(chart.floor, peak * 1.04));
  const x = (t) => right - ((now - t) / windowMs) * right;
  const y = (v) => bottom - (v / scale) * (bottom - top);
  c.setTransform(density, 0, 0, density, 0, 0);
  c.clearRect(0, 0, width, height);
  c.font = `11px ${ink["--sans"]}`;
  c.lineJoin = "round";
  drawHoles(c, now, x, top, bottom, wide);
  drawGrid(c, chart, scale, y, right, height);
  for (const run of runs) drawRun(c, chart, run, x, y);
  drawMarks(c, chart, x, y, top, bottom, scale, right);
  if (cursor !== null) drawCursor(c, chart, now, x, y, top, bottom);
  else if (runs.length && link.phase === "live" && runs.at(-1).at(-1).t === latest().t)
    dot(c, right, y(totalOf(runs.at(-1).at(-1).values)), ink[chart.wide ? "--ink" : "--accent"]);
  renderReadout(chart, now, peak, runs.length > 0);
}

function drawHoles(c, now, x, top, bottom, wide) {
  const hole = (from, to) => {
    const left = Math.max(0, x(from)),
      size = x(to) - left;
    if (size < 1) return;
    c.fillStyle = ink["--hole"];
    c.fillRect(left, top, size, bottom - top);
    if (wide && size > 60) {
      c.fillStyle = ink["--soft"];
      c.textAlign = "center";
      c.fillText("no data", left + size / 2, (top + bottom) / 2);
    }
  };
  for (let i = 1; i < samples.length; i += 1) {
    const [before, after] = [samples[i - 1], samples[i]];
    if (after.t - before.t > holeAfter(before)) hole(before.t, after.t);
  }
  if (samples.length && now - latest().t > HOLE_MS) hole(latest().t, now);
}

function drawGrid(c, chart, scale, y, right, height) {
  const text = chart.axis ?? chart.format;
  c.lineWidth = 1;
  c.fillStyle = ink["--soft"];
  c.textAlign = "left";
  for (const value of [0, scale / 2, scale]) {
    const at = Math.round(y(value)) + 0.5;
    c.strokeStyle = ink[value ? "--grid" : "--edge"];
    line(c, 0, at, right, at);
    c.fillText(text(value).replace(/\.0(?=\u2009)/, ""), right + 7, at + 3.5);
  }
  c.strokeStyle = ink["--edge"];
  for (let part = 0; part <= 5; part += 1) {
    const at = Math.round(right - (right * part) / 5) + 0.5,
      minutes = (part * windowMs) / 300_000;
    line(c, at, y(0) + 1, at, y(0) + 4);
    c.textAlign = part === 5 ? "left" : "center";
    if (chart.wide || part % 5 === 0)
      c.fillText(
        part === 5 ? `−${minutes}\u2009min` : part ? `−${minutes}` : "now",
        part === 5 ? 0 : at,
        height - 1,
      );
  }
}

function drawRun(c, chart, run, x, y) {
  const layers = chart.colors ?? ["--accent"];
  let under = run.map(() => 0);
  layers.forEach((name, layer) => {
    const over = run.map((p, i) => under[i] + p.values[layer]);
    if (run.length === 1) {
      if (over[0] > under[0] || layers.length === 1)
        dot(c, x(run[0].t), y(over[0]), ink[name], 1.5);
      under = over;
      return;
    }
    c.beginPath();
    run.forEach((p, i) => (i ? c.lineTo(x(p.t), y(over[i])) : c.moveTo(x(p.t), y(over[i]))));
    // A layer of nothing would draw its colour over the line below it.
    if (layers.length === 1 || over.some((v, i) => v > under[i])) {
      c.strokeStyle = ink[name];
      c.lineWidth = 1.5;
      c.stroke();
    }
    for (let i = run.length - 1; i >= 0; i -= 1) c.lineTo(x(run[i].t), y(under[i]));
    c.globalAlpha = layers.length > 1 ? 0.28 : 0.13;
    c.fillStyle = ink[name];
    c.fill();
    c.globalAlpha = 1;
    under = over;
  });
}

function drawMarks(c, chart, x, y, top, bottom, scale, right) {
  const holds = chart.capacity ? known(latest()?.raw.holds_connections) : null;
  if (holds && holds <= scale) {
    const at = Math.round(y(holds)) + 0.5;
    c.strokeStyle = c.fillStyle = ink["--warn"];
    line(c, 0, at, right, at, [4, 4]);
    c.textAlign = "right";
    c.fillText(`holds ${rate(holds)}`, right - 4, at - 3);
  }
  c.strokeStyle = ink["--soft"];
  for (const s of samples) {
    const at = Math.round(x(s.t)) + 0.5,
      late = at > right - 50;
    if (chart.marks && s.shed) {
      c.fillStyle = ink["--bad"];
      c.fillRect(at - 1.5, bottom - 7, 2, 7);
    }
    if (!s.restart) continue;
    line(c, at, top, at, bottom, [2, 3]);
    c.fillStyle = ink["--soft"];
    c.textAlign = late ? "right" : "left";
    if (chart.wide) c.fillText("restart", at + (late ? -4 : 4), top + 22);
  }
}

function drawCursor(c, chart, now, x, y, top, bottom) {
  const at = sampleAt(now - cursor),
    px = Math.round(x(at ? at.t : now - cursor)) + 0.5;
  c.strokeStyle = ink["--soft"];
  c.lineWidth = 1;
  line(c, px, top, px, bottom);
  const value = at && totalOf(chart.of(at));
  if (value !== null) dot(c, px, y(value), ink[chart.wide ? "--ink" : "--accent"]);
}

function line(c, x0, y0, x1, y1, dash = []) {
  c.setLineDash(dash);
  c.beginPath();
  c.moveTo(x0, y0);
  c.lineTo(x1, y1);
  c.stroke();
  c.setLineDash([]);
}

function dot(c, x, y, color, radius = 3) {
  c.beginPath();
  c.arc(x, y, radius, 0, 7);
  c.fillStyle = color;
  c.fill();
  if (radius > 2) {
    c.strokeStyle = ink["--panel"];
    c.lineWidth = 1.5;
    c.stroke();
  }
}

function renderReadout(chart, now, peak, any) {
  const at = cursor === null ? latest() : sampleAt(now - cursor);
  const value = at ? totalOf(chart.of(at)) : null,
    show = chart.exact ?? chart.format;
  put(chart.value, show(value));
  const shed = chart.marks ? samples.reduce((sum, s) => sum + s.shed, 0) : 0;
  const split =
    chart.wide && at
      ? TRANSPORTS.map(([, name], i) => `${name} ${whole(at.by[i])}`).join(" · ")
      : "";
  put(
    chart.peak,
    cursor !== null
      ? `${span(cursor / 1000)} ago${split ? ` · ${split}` : ""}`
      : any
        ? `peak ${show(peak)}${shed ? ` · ${rate(shed)} shed` : ""}`
        : "\u00a0",
  );
  chart.peak.classList.toggle("hot-bad", cursor === null && shed > 0);
}

/** Set when the cursor moves and not each second, or a screen reader would never stop. */
function speakChart(chart) {
  chart.canvas.setAttribute(
    "aria-valuenow",
    String(cursor === null ? 0 : -Math.round(cursor / 1000)),
  );
  chart.canvas.setAttribute(
    "aria-valuetext",
    `${chart.value.textContent}, ${cursor === null ? "now, " : ""}${chart.peak.textContent}`,
  );
}

function moveCursor(ms) {
  cursor = ms === null ? null : Math.min(windowMs, Math.max(0, ms));
  drawAll();
}

function buildCharts() {
  for (const chart of CHARTS) {
    chart.value = make("span", { className: "value", textContent: "–" });
    chart.peak = make("p", { className: "peak line", textContent: "\u00a0" });
    chart.canvas = make("canvas", { tabIndex: 0 });
    const labels = {
      role: "slider",
      "aria-label": `${chart.title}, over time. Arrow keys look back.`,
      "aria-valuemin": String(-KEPT_MS / 1000),
      "aria-valuemax": "0",
      "aria-valuenow": "0",
      "aria-valuetext": "no data yet",
    };
    for (const [name, value] of Object.entries(labels)) chart.canvas.setAttribute(name, value);
    const title = make("h2", { textContent: chart.title, className: "line" });
    title.title = chart.told ?? "";
    $("charts").append(
      make(
        "section",
        { className: `panel chart aged ${chart.wide ? "wide" : "small"}` },
        make("div", { className: "top" }, title, chart.value),
        chart.peak,
        chart.canvas,
      ),
    );
    const point = (event) => {
      const box = chart.canvas.getBoundingClientRect(),
        ms = (1 - (event.clientX - box.left) / (box.width - GUTTER)) * windowMs;
      moveCursor(ms > 0 ? ms : null);
    };
    chart.canvas.addEventListener("pointermove", point);
    chart.canvas.addEventListener("pointerdown", point);
    for (const end of ["pointerleave", "pointercancel", "blur"])
      chart.canvas.addEventListener(end, () => moveCursor(null));
    chart.canvas.addEventListener("focus", () => speakChart(chart));
    chart.canvas.addEventListener("keydown", (event) => {
      const from = cursor ?? 0;
      const to = {
        ArrowLeft: from + 1000,
        ArrowDown: from + 1000,
        ArrowRight: from - 1000,
        ArrowUp: from - 1000,
        PageDown: from + 30_000,
        PageUp: from - 30_000,
        Home: windowMs,
        End: 0,
        Escape: -1,
      }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      moveCursor(to < 0 ? null : to);
      speakChart(chart);
    });
    new ResizeObserver(() => draw(chart)).observe(chart.canvas);
  }
}

/** Five minutes or the whole hour. */
function showWindow(ms) {
  windowMs = ms;
  for (const at of document.querySelectorAll("[data-window]"))
    at.setAttribute("aria-pressed", String(Number(at.dataset.window) === ms));
  moveCursor(null);
}

const drawAll = () => CHARTS.forEach(draw);
let frame = 0;
/** Once a frame, however many samples a reconnect brings at once. */
function soon() {
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    renderAll();
  });
}
function renderAll() {
  const s = latest();
  renderLink();
  if (s) {
    renderLamps(s);
    renderHero(s);
    renderFacts(s);
  }
  drawAll();
}
