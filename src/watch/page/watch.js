"use strict";
/* watch.js - what the page shows: the list of runs, their curves and tables. Text from files is only ever set as text. */

const COLOURS = ["#2f6bff", "#e8590c", "#12a150", "#c026d3", "#0e9cb0", "#d99100", "#e03131", "#7c5cff"];
const SHOWN_AT_FIRST = 8; /* runs */
const LIVE = 60; /* seconds since the last value of a run that counts as running */
const SILENT = 10; /* the same for signs of life, which come every second */
const LONG = 10; /* seconds in a collective that deserve a look */

const byId = (id) => document.getElementById(id);
const state = { runs: new Map(), shown: new Set(), known: new Set(), now: 0, charts: new Map(), drawn: "" };

function make(tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
}

/* ---- runs ---- */

const colours = new Map();
function colourOf(id) {
  if (!colours.has(id)) colours.set(id, COLOURS[colours.size % COLOURS.length]);
  return colours.get(id);
}

const lastOf = (array) => array && array.length ? array[array.length - 1] : undefined;

/* Steps per second over the last part of a run. */
function rateOf(run) {
  const { x, y } = run.times, from = Math.max(0, x.length - 20);
  const seconds = lastOf(y) - y[from];
  return x.length > 1 && seconds > 0 ? (lastOf(x) - x[from]) / seconds : undefined;
}

const megabytes = (bytes) => bytes >= 2 ** 30 ? formatNumber(bytes / 2 ** 30) + " GB" : formatNumber(bytes / 2 ** 20) + " MB";

/* "running", "finished", "failed", or "silent": it says that it runs, but has stopped saying so. */
function lifeOf(run) {
  const { state: said, time } = run.status;
  return said === "running" && state.now - time > SILENT ? "silent" : said;
}

function describeStatus(run) {
  const { step, steps_per_second: steps, samples_per_second: samples, time, error } = run.status, life = lifeOf(run);
  const parts = ["step " + formatNumber(step)];
  if (life === "running" && samples > 0) parts.push(formatNumber(samples) + " samples/s");
  else if (life === "running" && steps > 0) parts.push(formatNumber(steps) + " steps/s");
  if (life === "silent") parts.push("no sign of life for " + formatSeconds(state.now - time));
  if (life === "finished") parts.push("finished " + formatSeconds(state.now - time) + " ago");
  if (life === "failed") parts.push("failed: " + error);
  const bad = life === "silent" || life === "failed";
  return { text: parts.join(" · "), className: bad ? "state bad" : "state", live: life === "running" };
}

function describe(run) {
  const problem = run.problem || run.complaint;
  if (problem) return { text: problem, className: "state bad", live: false };
  if (run.status) return describeStatus(run);
  const age = state.now - (lastOf(run.times.y) || 0), rate = rateOf(run), live = age < LIVE;
  const parts = [run.times.x.length ? "step " + formatNumber(lastOf(run.times.x)) : "no values yet"];
  if (rate) parts.push(formatNumber(rate) + " steps/s");
  if (!live && run.times.x.length) parts.push(formatSeconds(age) + " ago");
  return { text: parts.join(" · "), className: "state", live };
}

function showRuns() {
  const list = byId("runs"), find = byId("find-run").value.toLowerCase();
  const rows = [];
  for (const run of state.runs.values()) {
    if (!run.name.toLowerCase().includes(find)) continue;
    const item = make("li"), label = item.appendChild(make("label")), box = make("input");
    const said = run.times || run.status || run.problem || run.complaint ? describe(run) : { text: "", className: "state", live: false };
    box.type = "checkbox";
    box.checked = state.shown.has(run.id);
    box.addEventListener("change", () => {
      if (box.checked) state.shown.add(run.id);
      else state.shown.delete(run.id);
      update();
    });
    const swatch = make("span", undefined, "swatch");
    swatch.style.background = colourOf(run.id);
    label.append(box, swatch, make("span", run.name === "." ? "this folder" : run.name, "name"));
    label.append(make("span", said.text, said.className));
    item.className = said.live ? "live" : "";
    rows.push(item);
  }
  list.replaceChildren(...rows);
}

const shownRuns = () => [...state.runs.values()].filter((run) => state.shown.has(run.id) && run.series);

/* ---- curves ---- */

/* Steps become seconds since the start of the run. */
function elapsed(run, steps) {
  const { x, y } = run.times;
  if (!x.length) return steps;
  return steps.map((step) => y[nearestIndex(x, step)] - y[0]);
}

function showTip(event, title, rows) {
  const tip = byId("tip");
  tip.hidden = !event;
  if (!event) return;
  const lines = rows.slice(0, 12).map((row) => {
    const line = make("div"), swatch = make("span", undefined, "swatch");
    swatch.style.background = row.colour;
    line.append(swatch, make("span", row.name), make("b", row.value));
    return line;
  });
  tip.replaceChildren(make("div", title), ...lines);
  const left = Math.min(event.clientX + 16, window.innerWidth - tip.offsetWidth - 8);
  tip.style.left = left + "px";
  tip.style.top = Math.min(event.clientY + 16, window.innerHeight - tip.offsetHeight - 8) + "px";
}

/* "eval/loss" belongs to the group "eval". */
const groupOf = (key) => key.includes("/") ? key.slice(0, key.indexOf("/")) : "";

function showCharts() {
  const find = byId("find-key").value.toLowerCase(), over = byId("over").value, runs = shownRuns();
  const keys = new Map(), smooth = Number(byId("smooth").value);
  for (const run of runs) {
    const densest = Math.max(1, ...run.series.map((s) => s.x.length));
    for (const s of [...run.series, ...run.system.map((s) => ({ ...s, name: "system/" + s.name }))])
      if (s.name.toLowerCase().includes(find)) {
        if (!keys.has(s.name)) keys.set(s.name, []);
        const x = over === "time" ? elapsed(run, s.x) : s.x;
        /* The slider is about points of the densest curve: a value recorded less often is smoothed over the same steps. */
        const weight = s.x.length ? smooth ** (densest / s.x.length) : 0;
        keys.get(s.name).push({ name: run.name, colour: colourOf(run.id), x, y: s.y, low: s.low, high: s.high, weight });
      }
  }
  const options = { smooth, logX: byId("log-x").checked, logY: byId("log-y").checked,
                    formatX: over === "time" ? formatSeconds : (x) => formatNumber(x) };
  const groups = new Map();
  for (const key of keys.keys()) {
    if (!state.charts.has(key)) state.charts.set(key, new Chart(key, showTip));
    if (!groups.has(groupOf(key))) groups.set(groupOf(key), []);
    groups.get(groupOf(key)).push(key);
  }
  const layout = JSON.stringify([...groups]);
  if (layout !== state.drawn) {
    const sections = [...groups].map(([group, members]) => {
      const section = make("div", undefined, "group"), grid = make("div", undefined, "grid");
      if (groups.size > 1) section.append(make("h2", group || "values"));
      grid.append(...members.map((key) => state.charts.get(key).element));
      section.append(grid);
      return section;
    });
    byId("charts").replaceChildren(...sections);
    state.drawn = layout;
  }
  for (const [key, curves] of keys) state.charts.get(key).set(curves, options);
  const notice = byId("notice");
  notice.hidden = keys.size > 0;
  notice.textContent = !state.runs.size ? "No runs here yet. A run appears when a tracker records its first value."
    : !runs.length ? "Choose a run on the left." : "No values match.";
}

/* ---- tables ---- */

function table(title, head, rows) {
  const card = make("section", undefined, "card"), scroll = make("div", undefined, "scroll"), body = make("table");
  card.append(make("h3", title));
  const first = body.appendChild(make("tr"));
  first.append(...head.map((text) => make("th", text)));
  for (const row of rows) {
    const line = body.appendChild(make("tr", undefined, row.className));
    for (const cell of row.cells) line.append(cell instanceof Node ? cell : make("td", cell));
  }
  scroll.append(body);
  card.append(scroll);
  return card;
}

const settingText = (value) => typeof value === "number" ? formatNumber(value)
  : value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value);

function settingsTable(runs) {
  const names = new Set(runs.flatMap((run) => Object.keys(run.config || {})));
  if (!names.size) return null;
  const rows = [...names].map((name) => {
    const values = runs.map((run) => settingText(Object.hasOwn(run.config || {}, name) ? run.config[name] : undefined));
    return { cells: [name, ...values], className: new Set(values).size > 1 ? "differs" : "" };
  });
  return table("Parameters", ["", ...runs.map((run) => run.name)], rows);
}

/* What each process of a run does. */
function processTable(run) {
  const silent = lifeOf(run) === "silent", { ranks, world, host } = run.status;
  const rows = ranks.map((rank) => {
    const waits = rank.waits > LONG || rank.state === "died" || silent;
    const life = silent ? "silent" : rank.state === "running" && rank.waits > LONG ? "waiting" : rank.state;
    const cells = [String(rank.rank), make("td", life, waits ? "bad" : rank.state === "running" ? "good" : ""),
                   megabytes(rank.memory), String(rank.process), rank.last || ""];
    return { cells };
  });
  const elsewhere = world - ranks.length;
  const title = run.name + ": " + world + (world === 1 ? " process" : " processes") +
    (elsewhere > 0 ? ", " + elsewhere + " of them on other hosts" : "") + " · " + host;
  return table(title, ["rank", "state", "memory", "process", "last collective"], rows);
}

function checkpointTable(runs) {
  const rows = runs.flatMap((run) => run.status.checkpoints.slice().reverse().map((c) => ({
    cells: [run.name, c.name, new Date(c.time * 1000).toLocaleString()],
  })));
  return rows.length ? table("Checkpoints", ["run", "", "saved"], rows) : null;
}

function showTables() {
  const runs = shownRuns(), alive = runs.filter((run) => run.status);
  const running = alive.filter((run) => lifeOf(run) === "running" || lifeOf(run) === "silent");
  const tables = [...running.map(processTable), settingsTable(runs), checkpointTable(alive)];
  byId("tables").replaceChildren(...tables.filter(Boolean));
}

function update() {
  showRuns();
  showCharts();
  showTables();
}

/* ---- data ---- */

/* Returns whether runs have disappeared. */
function takeList(list) {
  byId("folder").textContent = list.folder === "." ? "" : list.folder;
  document.title = "Lockstep" + (list.folder === "." ? "" : " · " + list.folder);
  byId("more").hidden = !list.more;
  byId("closed").hidden = !list.closed;
  byId("closed").textContent = "The folder " + list.closed + " may not be entered.";
  state.now = list.now;
  const ids = new Set(list.runs.map((run) => run.id)), gone = [...state.runs.keys()].filter((id) => !ids.has(id));
  for (const id of gone) state.runs.delete(id);
  for (const { id, name } of list.runs) {
    if (!state.runs.has(id)) state.runs.set(id, { id, name });
    if (!state.known.has(id) && state.shown.size < SHOWN_AT_FIRST) state.shown.add(id);
    state.known.add(id);
  }
  return gone.length > 0;
}

/* Does a value have members of these types? Those that end in "?" may be missing or null. */
function hasShape(value, shape) {
  return value !== null && typeof value === "object" && Object.entries(shape).every(([key, type]) => {
    const member = value[key];
    if (type.endsWith("?") && (member === null || member === undefined)) return true;
    return type === "array" ? Array.isArray(member) : typeof member === type.replace("?", "");
  });
}

const STATUS = { state: "string", error: "string?", time: "number", host: "string", world: "number", step: "number",
                 steps_per_second: "number?", samples_per_second: "number?", ranks: "array", checkpoints: "array" };
const RANK = { rank: "number", process: "number", state: "string", memory: "number", last: "string?", waits: "number?" };
const CHECKPOINT = { name: "string", time: "number" };

/* A file that is not one of ours may have any shape. */
function takeStatus(run, status, life) {
  const ours = hasShape(status, STATUS) && status.ranks.every((rank) => hasShape(rank, RANK)) &&
    status.checkpoints.every((checkpoint) => hasShape(checkpoint, CHECKPOINT));
  run.status = ours ? status : null;
  run.complaint = status && !ours ? "status.json is not one of Lockstep's" : null;
  run.life = life;
}

/* Null if there is no such thing. */
async function ask(path) {
  const answer = await fetch(path);
  if (answer.status === 404) return null;
  if (!answer.ok) throw new Error("the server answers " + answer.status);
  return answer.json();
}

/* The run as it is now, `known` if nothing of it has changed, or null if it has been deleted since it was listed. */
async function askRun(known, { id, version, life }) {
  let run = known;
  /* Values only of those that are shown, that say nothing else about themselves, or whose last request failed. */
  if (known.version !== version && (state.shown.has(id) || /^0*$/.test(life) || known.problem)) {
    const { life: before, status, complaint } = known;
    run = await ask("api/run?name=" + id);
    if (!run) return null;
    run = { ...run, life: before, status, complaint };
  }
  if (known.life !== life) takeStatus(run, await ask("api/status?name=" + id), life);
  return run;
}

async function poll() {
  const pulse = byId("pulse");
  try {
    const list = await ask("api/runs");
    let changed = takeList(list);
    for (const listed of list.runs) {
      const known = state.runs.get(listed.id);
      /* What is wrong with one run does not concern the others; that the server has ended, the next list tells. */
      const run = await askRun(known, listed).catch((error) => ({ ...known, version: "", problem: error.message }));
      if (run) state.runs.set(listed.id, run);
      else state.runs.delete(listed.id);
      changed = changed || run !== known;
    }
    showRuns();
    showTables();
    if (changed || !state.drawn) showCharts();
    pulse.className = "live";
    pulse.textContent = "live";
  } catch (error) {
    pulse.className = "gone";
    pulse.textContent = "lockstep watch has ended";
  }
  window.setTimeout(poll, document.hidden ? 5000 : 1000);
}

/* ---- start ---- */

for (const id of ["over", "log-y", "log-x"]) byId(id).addEventListener("change", update);
for (const id of ["find-run", "find-key"]) byId(id).addEventListener("input", update);
byId("smooth").addEventListener("input", () => {
  byId("smooth-value").textContent = byId("smooth").value;
  showCharts();
});
byId("theme").addEventListener("click", () => {
  const root = document.documentElement, dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
  showCharts();
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showCharts);

if (byId("data")) {
  const data = JSON.parse(byId("data").textContent);
  takeList(data.list);
  data.runs.forEach((run, i) => {
    takeStatus(run, data.statuses[i]);
    state.runs.set(run.id, run);
  });
  byId("pulse").textContent = "as of " + new Date(data.list.now * 1000).toLocaleString();
  update();
} else {
  poll();
}
