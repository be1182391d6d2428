"use strict";
/* chart.js - one plot of several curves on a canvas, and the numbers on its axes. */

/* A number as a reader wants it: four digits, no noise. */
function formatNumber(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2).replace("e+", "e");
  return String(Number(value.toPrecision(4)));
}

function formatSeconds(seconds) {
  const s = Math.round(seconds);
  if (s < 60) return (seconds < 10 ? Math.max(0, seconds).toFixed(1) : s) + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + (s % 60) + " s";
  return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
}

/* Positions of round numbers between two limits. */
function ticks(low, high, wanted, log) {
  const found = [];
  if (log) {
    const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
    const stride = Math.max(1, Math.ceil((to - from) / wanted));
    for (let e = from; e <= to; e += stride)
      for (const m of to - from > 2 ? [1] : [1, 2, 5]) found.push(m * 10 ** e);
  } else {
    const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((m) => m * power >= rough) * power;
    for (let i = Math.ceil(low / step); i * step <= high; i++) found.push(i * step);
  }
  return found.filter((t) => t >= low && t <= high);
}

/* Exponential running means, corrected for their start at zero. Gaps stay gaps. */
function smoothed(values, weight) {
  if (!weight) return values;
  let sum = 0, total = 0;
  return values.map((v) => {
    if (v === null) return null;
    sum = sum * weight + v * (1 - weight);
    total = total * weight + (1 - weight);
    return sum / total;
  });
}

/* The index of the value nearest to `x` in an ascending array. */
function nearestIndex(xs, x) {
  let low = 0, high = xs.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (xs[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - xs[low - 1] < xs[low] - x ? low - 1 : low;
}

class Chart {
  /* `tip` shows values under the pointer. */
  constructor(title, tip) {
    this.element = document.createElement("section");
    this.element.className = "card";
    this.heading = this.element.appendChild(document.createElement("h3"));
    this.heading.appendChild(document.createElement("div")).textContent = title;
    this.latest = this.heading.appendChild(document.createElement("span"));
    this.canvas = this.element.appendChild(document.createElement("canvas"));
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", title);
    this.tip = tip;
    this.curves = [];
    this.options = {};
    this.zoom = null;
    this.pointer = null;
    this.drag = null;
    this.canvas.addEventListener("pointermove", (e) => this.move(e));
    this.canvas.addEventListener("pointerleave", () => this.leave());
    this.canvas.addEventListener("pointerdown", (e) => this.press(e));
    this.canvas.addEventListener("pointerup", (e) => this.release(e));
    this.canvas.addEventListener("dblclick", () => { this.zoom = null; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  /* curves: [{name, colour, x, y, low?, high?, weight}], x ascending; weight: of the past in running means. options:
     smooth (whether to draw these), logX, logY, formatX. */
  set(curves, options) {
    this.options = options;
    this.curves = curves.map((c) => ({ ...c, line: smoothed(c.y, c.weight) }));
    const last = curves.length === 1 ? curves[0].y[curves[0].y.length - 1] : undefined;
    this.latest.textContent = last === undefined ? "" : formatNumber(last);
    this.draw();
  }

  limits() {
    const { logX, logY, smooth } = this.options;
    const fits = (v, log) => v !== null && Number.isFinite(v) && (!log || v > 0);
    let x0 = Infinity, x1 = -Infinity, y0 = Infinity, y1 = -Infinity;
    for (const c of this.curves)
      for (const x of c.x) if (fits(x, logX)) { x0 = Math.min(x0, x); x1 = Math.max(x1, x); }
    if (this.zoom) [x0, x1] = this.zoom;
    for (const c of this.curves) {
      const rows = smooth ? [c.line] : [c.low || c.y, c.high || c.y];
      for (const row of rows)
        for (let i = 0; i < row.length; i++)
          if (fits(row[i], logY) && c.x[i] >= x0 && c.x[i] <= x1) {
            y0 = Math.min(y0, row[i]);
            y1 = Math.max(y1, row[i]);
          }
    }
    if (!(x0 <= x1)) [x0, x1] = logX ? [1, 10] : [0, 1];
    if (!(y0 <= y1)) [y0, y1] = logY ? [0.1, 1] : [0, 1];
    if (x0 === x1) [x0, x1] = logX ? [x0 / 2, x1 * 2] : [x0 - 1, x1 + 1];
    if (y0 === y1) [y0, y1] = logY ? [y0 / 2, y1 * 2] : [y0 - (Math.abs(y0) || 1) / 10, y1 + (Math.abs(y1) || 1) / 10];
    const margin = logY ? (y1 / y0) ** 0.04 : (y1 - y0) * 0.04;
    return { x0, x1, y0: logY ? y0 / margin : y0 - margin, y1: logY ? y1 * margin : y1 + margin };
  }

  draw() {
    const width = this.canvas.clientWidth, height = this.canvas.clientHeight, scale = window.devicePixelRatio || 1;
    if (!width || !height) return;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    const g = this.canvas.getContext("2d"), style = getComputedStyle(this.canvas);
    const colour = (name) => style.getPropertyValue(name).trim();
    const { logX, logY, formatX } = this.options, l = this.limits();
    g.scale(scale, scale);
    g.font = "11px system-ui, sans-serif";
    const marksY = ticks(l.y0, l.y1, 5, logY);
    const left = 10 + Math.max(24, ...marksY.map((t) => g.measureText(formatNumber(t)).width)), bottom = 22;
    const box = { left, top: 6, right: width - 8, bottom: height - bottom };
    const along = (v, from, to, log) => log ? Math.log(v / from) / Math.log(to / from) : (v - from) / (to - from);
    const px = (x) => box.left + along(x, l.x0, l.x1, logX) * (box.right - box.left);
    const py = (y) => box.bottom - along(y, l.y0, l.y1, logY) * (box.bottom - box.top);
    this.frame = { box, l, px, py };

    g.strokeStyle = colour("--grid");
    g.fillStyle = colour("--faint");
    g.lineWidth = 1;
    g.textBaseline = "middle";
    g.textAlign = "right";
    for (const t of marksY) {
      g.beginPath();
      g.moveTo(box.left, py(t));
      g.lineTo(box.right, py(t));
      g.stroke();
      g.fillText(formatNumber(t), box.left - 6, py(t));
    }
    g.textAlign = "center";
    for (const t of ticks(l.x0, l.x1, Math.max(2, Math.floor(width / 110)), logX))
      g.fillText((formatX || formatNumber)(t), Math.min(Math.max(px(t), 20), width - 24), height - bottom / 2 + 2);

    g.save();
    g.beginPath();
    g.rect(box.left, box.top - 2, box.right - box.left, box.bottom - box.top + 4);
    g.clip();
    for (const c of this.curves) {
      if (c.low) this.band(g, c);
      if (this.options.smooth) this.line(g, c.x, c.y, c.colour, 0.25, 1);
      this.line(g, c.x, c.line, c.colour, 1, 1.6);
    }
    if (this.pointer !== null) {
      g.globalAlpha = 0.5;
      g.strokeStyle = colour("--faint");
      g.beginPath();
      g.moveTo(this.pointer, box.top);
      g.lineTo(this.pointer, box.bottom);
      g.stroke();
    }
    if (this.drag !== null && this.pointer !== null) {
      g.globalAlpha = 0.12;
      g.fillStyle = colour("--accent");
      g.fillRect(this.drag, box.top, this.pointer - this.drag, box.bottom - box.top);
    }
    g.restore();
  }

  line(g, xs, ys, colour, alpha, width) {
    const { px, py } = this.frame, { logX, logY } = this.options;
    g.globalAlpha = alpha;
    g.strokeStyle = g.fillStyle = colour;
    g.lineWidth = width;
    g.lineJoin = "round";
    g.beginPath();
    let pen = false;
    for (let i = 0; i < xs.length; i++) {
      const seen = ys[i] !== null && (!logX || xs[i] > 0) && (!logY || ys[i] > 0);
      if (seen && pen) g.lineTo(px(xs[i]), py(ys[i]));
      else if (seen) g.moveTo(px(xs[i]), py(ys[i]));
      /* A point without neighbours is a dot. */
      const alone = seen && !pen && (i + 1 === xs.length || ys[i + 1] === null);
      if (alone) g.rect(px(xs[i]) - 1, py(ys[i]) - 1, 2, 2);
      pen = seen;
    }
    g.stroke();
    g.globalAlpha = 1;
  }

  /* Where points were combined: the range of their values. */
  band(g, c) {
    const { px, py } = this.frame, { logX, logY } = this.options;
    const whole = c.x.map((x, i) => i).filter((i) => c.low[i] !== null && (!logY || c.low[i] > 0) && (!logX || c.x[i] > 0));
    g.globalAlpha = 0.15;
    g.fillStyle = c.colour;
    g.beginPath();
    for (const i of whole) g.lineTo(px(c.x[i]), py(c.high[i]));
    for (const i of whole.reverse()) g.lineTo(px(c.x[i]), py(c.low[i]));
    g.fill();
    g.globalAlpha = 1;
  }

  /* ---- the pointer ---- */

  dataX(pixel) {
    const { box, l } = this.frame;
    const part = Math.min(1, Math.max(0, (pixel - box.left) / (box.right - box.left)));
    return this.options.logX ? l.x0 * (l.x1 / l.x0) ** part : l.x0 + part * (l.x1 - l.x0);
  }

  move(event) {
    if (!this.frame) return;
    this.pointer = event.offsetX;
    this.draw();
    const x = this.dataX(event.offsetX), rows = [];
    for (const c of this.curves) {
      if (!c.x.length) continue;
      const i = nearestIndex(c.x, x);
      rows.push({ colour: c.colour, name: c.name, value: formatNumber(c.line[i]), x: c.x[i] });
    }
    if (!rows.length) return;
    rows.sort((a, b) => Math.abs(a.x - x) - Math.abs(b.x - x));
    this.tip(event, (this.options.formatX || formatNumber)(rows[0].x), rows);
  }

  leave() {
    this.pointer = this.drag = null;
    this.tip(null);
    this.draw();
  }

  press(event) {
    this.drag = event.offsetX;
  }

  release(event) {
    if (this.drag !== null && Math.abs(event.offsetX - this.drag) > 5) {
      const ends = [this.dataX(this.drag), this.dataX(event.offsetX)];
      this.zoom = [Math.min(...ends), Math.max(...ends)];
    }
    this.drag = null;
    this.draw();
  }
}
