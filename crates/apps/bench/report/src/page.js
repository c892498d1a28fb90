// Draws the charts of a report: lines over time or over percentiles, with a crosshair that all time
// charts share.
// It knows nothing of runs: the charts come as data from the page.
"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts-data").textContent);
  const host = document.getElementById("charts");
  const HEIGHT = 232,
    TOP = 10,
    BOTTOM = 24,
    RIGHT = 10;
  const drawn = [];

  const thousands = (x) => Math.round(x).toLocaleString("en-US");
  const digits = (x) =>
    x >= 100 || Number.isInteger(x) ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2);
  const scaled = (x, base, names) => {
    let at = 0;
    while (Math.abs(x) >= base && at < names.length - 1) {
      x /= base;
      at += 1;
    }
    return digits(x) + names[at];
  };
  const FORMATS = {
    count: thousands,
    per_s: (x) => (x < 10 ? digits(x) : thousands(x)) + "/s",
    us: (x) =>
      x < 1e3 ? digits(x) + " µs" : x < 1e6 ? digits(x / 1e3) + " ms" : digits(x / 1e6) + " s",
    bytes: (x) => scaled(x, 1024, [" B", " KiB", " MiB", " GiB", " TiB"]),
    bits: (x) => scaled(x, 1000, [" bit/s", " kbit/s", " Mbit/s", " Gbit/s"]),
    share: (x) => digits(Number((x * 100).toPrecision(6))) + " %",
  };
  const SHORT = {
    count: (x) => scaled(x, 1000, ["", "k", "M", "G"]),
    per_s: (x) => scaled(x, 1000, ["", "k", "M", "G"]),
  };
  const clock = (s) => {
    if (s < 120) return digits(s) + " s";
    const h = Math.floor(s / 3600),
      m = Math.floor((s % 3600) / 60),
      rest = Math.round(s % 60);
    return h
      ? `${h}h ${String(m).padStart(2, "0")}m`
      : rest
        ? `${m}m ${String(rest).padStart(2, "0")}s`
        : `${m}m`;
  };

  const svg = (name, attributes, parent) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (parent) parent.appendChild(node);
    return node;
  };
  const html = (name, className, parent, text) => {
    const node = document.createElement(name);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    if (parent) parent.appendChild(node);
    return node;
  };

  // Round steps: 1, 2 or 5 times a power of the base's ten; bytes step in powers of two.
  const linearTicks = (max, wanted, unit) => {
    if (max <= 0) return [0];
    const raw = max / wanted;
    let step;
    if (unit === "bytes") {
      step = 2 ** Math.ceil(Math.log2(raw));
    } else {
      const power = 10 ** Math.floor(Math.log10(raw));
      step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw);
      if (unit === "count") step = Math.max(1, step);
    }
    const ticks = [];
    for (let t = 0; t <= max * 1.0001; t += step) ticks.push(t);
    if (ticks[ticks.length - 1] < max) ticks.push(ticks[ticks.length - 1] + step);
    return ticks;
  };
  const logTicks = (low, high) => {
    const ticks = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e += 1)
      ticks.push(10 ** e);
    return ticks;
  };
  const timeTicks = (max, wanted) => {
    const steps = [
      0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200,
      86400,
    ];
    const step = steps.find((s) => max / s <= wanted) || max / wanted;
    const ticks = [];
    for (let t = 0; t <= max * 1.0001; t += step) ticks.push(t);
    return ticks;
  };

  class View {
    constructor(chart) {
      this.chart = chart;
      this.hidden = new Set();
      this.figure = html("figure", "", host);
      const caption = html("figcaption", "", this.figure);
      html("b", "", caption, chart.title);
      html("span", "", caption, chart.hint);
      this.legend = html("div", "legend", this.figure);
      this.values = chart.series.map((series, index) => {
        const button = html("button", "", this.legend);
        button.type = "button";
        button.setAttribute("aria-pressed", "true");
        const mark = html("i", series.dashed ? "dashed" : "", button);
        mark.style.borderColor = `var(--${series.color})`;
        html("span", "", button, series.name);
        button.addEventListener("click", () => {
          if (this.hidden.has(index)) this.hidden.delete(index);
          else if (this.hidden.size < chart.series.length - 1) this.hidden.add(index);
          button.setAttribute("aria-pressed", String(!this.hidden.has(index)));
          this.draw();
        });
        return html("em", "", button);
      });
      this.root = svg("svg", { role: "img", height: HEIGHT }, this.figure);
      svg("title", {}, this.root).textContent = chart.title;
      this.root.addEventListener("pointermove", (event) => this.onPointer(event));
      this.root.addEventListener("pointerleave", () => all(this, null));
      this.draw();
    }

    shown() {
      return this.chart.series.filter((_, index) => !this.hidden.has(index));
    }

    scales() {
      const { axis, log, unit } = this.chart;
      const points = this.shown().flatMap((s) => s.points.filter((p) => p[1] !== null));
      const ys = points.map((p) => p[1]).filter((y) => !log || y > 0);
      const top = ys.reduce((a, b) => Math.max(a, b), 0);
      this.yTicks = log
        ? logTicks(ys.reduce((a, b) => Math.min(a, b), top || 1) || 1, Math.max(top, 10))
        : linearTicks(top || 1, 4, unit);
      const yLow = this.yTicks[0],
        yHigh = this.yTicks[this.yTicks.length - 1];
      const short = SHORT[unit] || FORMATS[unit];
      this.yLabel = (y) => short(y);
      const longest = this.yTicks.reduce((n, y) => Math.max(n, this.yLabel(y).length), 1);
      this.left = 14 + longest * 6.4;
      this.width = Math.max(200, this.root.clientWidth || this.figure.clientWidth - 36);
      const inner = this.width - this.left - RIGHT,
        tall = HEIGHT - TOP - BOTTOM;
      const share = log
        ? (y) =>
            (Math.log10(Math.max(y, yLow)) - Math.log10(yLow)) /
            (Math.log10(yHigh) - Math.log10(yLow) || 1)
        : (y) => y / yHigh;
      this.y = (value) => TOP + tall * (1 - share(value));
      if (axis === "percentile") {
        // Each step to the right leaves a tenth: 90, 99, 99.9, …
        const rank = (p) => (p >= 100 ? Infinity : Math.log10(100 / (100 - p)));
        const ranks = points.map((p) => rank(p[0])).filter(Number.isFinite);
        const most = Math.max(1, Math.ceil(ranks.reduce((a, b) => Math.max(a, b), 1) * 10) / 10);
        this.x = (p) => this.left + inner * Math.min(1, rank(p) / most);
        this.xTicks = [50, 90, 99, 99.9, 99.99, 99.999, 99.9999].filter((p) => rank(p) <= most);
        this.xLabel = (p) => "p" + p;
      } else {
        const most = this.chart.series
          .flatMap((s) => s.points.map((p) => p[0]))
          .reduce((a, b) => Math.max(a, b), 1);
        this.x = (t) => this.left + inner * (t / most);
        this.back = (pixel) => ((pixel - this.left) / inner) * most;
        this.xTicks = timeTicks(most, Math.max(3, Math.floor(inner / 84)));
        this.xLabel = clock;
      }
    }

    draw() {
      this.root.replaceChildren(this.root.firstChild);
      this.scales();
      this.root.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
      const floor = HEIGHT - BOTTOM;
      if (this.chart.measured) {
        const [from, to] = this.chart.measured.map((t) => this.x(t));
        svg(
          "rect",
          {
            class: "measured",
            x: from,
            y: TOP,
            width: Math.max(0, to - from),
            height: floor - TOP,
          },
          this.root,
        );
      }
      for (const tick of this.yTicks) {
        const y = this.y(tick);
        svg(
          "line",
          {
            class: tick === this.yTicks[0] ? "base" : "grid",
            x1: this.left,
            x2: this.width - RIGHT,
            y1: y,
            y2: y,
          },
          this.root,
        );
        svg("text", { x: this.left - 8, y: y + 4, "text-anchor": "end" }, this.root).textContent =
          this.yLabel(tick);
      }
      this.xTicks.forEach((tick, index) => {
        const last = index === this.xTicks.length - 1 && this.x(tick) > this.width - 40;
        svg(
          "text",
          {
            x: this.x(tick),
            y: HEIGHT - 6,
            "text-anchor": index === 0 ? "start" : last ? "end" : "middle",
          },
          this.root,
        ).textContent = this.xLabel(tick);
      });
      this.chart.series.forEach((series, index) => {
        if (this.hidden.has(index)) return;
        const line = this.path(series);
        if (this.shown().length === 1 && !this.chart.log) {
          const points = series.points.filter((p) => p[1] !== null);
          const first = this.x(points[0][0]),
            last = this.x(points[points.length - 1][0]);
          svg(
            "path",
            {
              d: `${line.replace(/(?!^)M/g, "L")}L${last},${floor}L${first},${floor}Z`,
              fill: `var(--${series.color})`,
              opacity: 0.1,
            },
            this.root,
          );
        }
        svg(
          "path",
          {
            class: "line",
            d: line,
            stroke: `var(--${series.color})`,
            ...(series.dashed ? { "stroke-dasharray": "6 5" } : {}),
          },
          this.root,
        );
      });
      this.cross = svg(
        "line",
        { class: "cross", y1: TOP, y2: floor, visibility: "hidden" },
        this.root,
      );
      this.crossLabel = svg("text", { y: TOP + 2, visibility: "hidden" }, this.root);
      this.dots = this.chart.series.map((series) =>
        svg(
          "circle",
          {
            r: 3.5,
            fill: `var(--${series.color})`,
            stroke: "var(--card)",
            "stroke-width": 1.5,
            visibility: "hidden",
          },
          this.root,
        ),
      );
      this.show(null);
    }

    path(series) {
      let d = "",
        pen = "M";
      for (const [x, y] of series.points) {
        if (y === null || (this.chart.log && y <= 0)) {
          pen = "M";
          continue;
        }
        d += `${pen}${this.x(x).toFixed(1)},${this.y(y).toFixed(1)}`;
        pen = "L";
      }
      return d;
    }

    onPointer(event) {
      const box = this.root.getBoundingClientRect();
      const pixel = ((event.clientX - box.left) / box.width) * this.width;
      if (this.chart.axis === "time") {
        all(this, this.back(pixel));
        return;
      }
      const points = this.chart.series[0].points;
      this.show(
        points.reduce(
          (best, p) =>
            Math.abs(this.x(p[0]) - pixel) < Math.abs(this.x(best) - pixel) ? p[0] : best,
          points[0][0],
        ),
      );
    }

    // Shows the values at a place of the axis, or the last ones.
    show(at) {
      const format = FORMATS[this.chart.unit];
      let place = null;
      this.chart.series.forEach((series, index) => {
        const known = series.points.filter((p) => p[1] !== null);
        const point =
          at === null
            ? known[known.length - 1]
            : known.reduce(
                (best, p) => (Math.abs(p[0] - at) < Math.abs(best[0] - at) ? p : best),
                known[0],
              );
        this.values[index].textContent = point ? format(point[1]) : "";
        const visible =
          at !== null && point && !this.hidden.has(index) && !(this.chart.log && point[1] <= 0);
        this.dots[index].setAttribute("visibility", visible ? "visible" : "hidden");
        if (visible) {
          place = point[0];
          this.dots[index].setAttribute("cx", this.x(point[0]));
          this.dots[index].setAttribute("cy", this.y(point[1]));
        }
      });
      for (const node of [this.cross, this.crossLabel])
        node.setAttribute("visibility", place === null ? "hidden" : "visible");
      if (place === null) return;
      const x = this.x(place),
        left = x > this.width - 90;
      this.cross.setAttribute("x1", x);
      this.cross.setAttribute("x2", x);
      this.crossLabel.setAttribute("x", x + (left ? -6 : 6));
      this.crossLabel.setAttribute("text-anchor", left ? "end" : "start");
      this.crossLabel.textContent =
        this.chart.axis === "time" ? clock(place) : "p" + Number(place.toFixed(5));
    }
  }

  const all = (origin, at) => {
    if (origin.chart.axis !== "time") {
      origin.show(at);
      return;
    }
    for (const view of drawn) if (view.chart.axis === "time") view.show(at);
  };

  for (const chart of charts) drawn.push(new View(chart));
  let due = 0;
  new ResizeObserver(() => {
    cancelAnimationFrame(due);
    due = requestAnimationFrame(() => drawn.forEach((view) => view.draw()));
  }).observe(host);
})();
