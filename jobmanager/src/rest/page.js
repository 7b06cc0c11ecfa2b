// Draws what the JSON of this server says: jobs, the graph of one, its decisions. Changes nothing.
"use strict";

const BOX = { width: 236, height: 92, across: 306, down: 112, margin: 16 };
const REFRESH_MS = 1000;
const chosen = { job: location.hash.slice(1), stage: null };
const by = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = name === "svg" || attributes.svg
    ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (key !== "svg") made.setAttribute(key, value);
  made.append(...children);
  return made;
}
const svg = (name, attributes, ...children) => element(name, { svg: true, ...attributes }, ...children);

async function fetched(path) {
  const token = sessionStorage.getItem("token");
  const answer = await fetch(path, token ? { headers: { Authorization: `Bearer ${token}` } } : {});
  const json = await answer.json();
  if (answer.ok) return json;
  if (answer.status === 401) by("login").hidden = false;
  throw new Error(json.error.message);
}

function bytes(count) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (count >= 1024 && unit + 1 < units.length) { count /= 1024; unit += 1; }
  return `${unit ? count.toFixed(1) : count} ${units[unit]}`;
}
const duration = (ms) => ms < 1000 ? `${ms} ms` : ms < 60000 ? `${(ms / 1000).toFixed(2)} s`
  : `${Math.floor(ms / 60000)} min ${String(Math.floor(ms / 1000) % 60).padStart(2, "0")} s`;
const rows = (count) => `${count.toLocaleString("en")} row${count === 1 ? "" : "s"}`;
const ended = (summary) => ["finished", "failed", "cancelled"].includes(summary.state);
const number = (text) => element("td", { class: "number" }, text);

function showCluster(overview) {
  const managers = overview.task_managers.length;
  by("cluster").textContent = `${overview.version} · ${managers} TaskManager${managers === 1 ? "" : "s"} · `
    + `${overview.slots_free} of ${overview.slots_total} slots free · up ${duration(overview.uptime_ms)}`;
}

function showJobs(jobs) {
  const lines = jobs.flatMap((job) => {
    const mark = job.job_id === chosen.job ? "chosen " : "";
    const choose = () => { location.hash = job.job_id; };
    const head = element("tr", { class: `${mark}head` },
      element("td", { class: "id" }, job.job_id.slice(0, 12)),
      element("td", { class: job.state }, job.state.replaceAll("_", " ")),
      number(ended(job) ? duration(job.duration_ms) : ""),
      number(`${job.tasks_finished}/${job.tasks_total}`));
    const text = element("tr", { class: mark }, element("td", { class: "statement", colspan: 4, title: job.statement }, job.statement));
    head.onclick = text.onclick = choose;
    return [head, text];
  });
  by("jobs").tBodies[0].replaceChildren(...lines);
}

// Every stage has one place to go: into the stage that reads it, or that runs its operators.
function edges(stages) {
  const read = stages.flatMap((to) => to.inputs.map((input) => ({ from: input.producer, to: to.stage, input })));
  const run = stages.filter((s) => s.runs_in !== null).map((s) => ({ from: s.stage, to: s.runs_in, input: null }));
  return [...read, ...run];
}

// Columns by distance from the result, rows by leaves: a tree on its side, the result on the right.
function layout(stages, links) {
  const places = new Map();
  let row = 0;
  const place = (stage, depth) => {
    if (places.has(stage)) return places.get(stage).row;
    places.set(stage, { depth, row: 0 });
    const below = links.filter((link) => link.to === stage).map((link) => place(link.from, depth + 1));
    places.get(stage).row = below.length ? (Math.min(...below) + Math.max(...below)) / 2 : row++;
    return places.get(stage).row;
  };
  const sources = new Set(links.map((link) => link.from));
  for (const stage of stages) if (!sources.has(stage.stage)) place(stage.stage, 0);
  const deepest = Math.max(0, ...[...places.values()].map((p) => p.depth));
  for (const place of places.values()) {
    place.x = BOX.margin + (deepest - place.depth) * BOX.across;
    place.y = BOX.margin + place.row * BOX.down;
  }
  return { places, width: BOX.margin * 2 + deepest * BOX.across + BOX.width, height: BOX.margin * 2 + Math.max(1, row) * BOX.down - 20 };
}

function wrapped(text, width, lines) {
  const out = [""];
  for (const word of text.split(" ")) {
    if ((out[out.length - 1] + word).length > width && out[out.length - 1]) out.push("");
    out[out.length - 1] += `${word} `;
  }
  const shown = out.slice(0, lines).map((line) => line.trim().slice(0, width));
  if (out.length > lines) shown[lines - 1] = `${shown[lines - 1].slice(0, width - 2)} …`;
  return shown;
}

function stageBox(stage, at, decided) {
  const elsewhere = stage.runs_in !== null;
  const state = elsewhere ? "elsewhere" : stage.running ? "running" : stage.parallelism && stage.finished === stage.parallelism ? "finished" : "waiting";
  const tasks = elsewhere ? `runs in s${stage.runs_in}` : stage.parallelism ? `${stage.finished}/${stage.parallelism} tasks` : "not decided yet";
  const text = (x, y, content, kind = "") => svg("text", { x: at.x + x, y: at.y + y, class: kind }, content);
  const group = svg("g", { class: `stage ${state}${chosen.stage === stage.stage ? " chosen" : ""}`, tabindex: 0 },
    svg("title", {}, `s${stage.stage} ${stage.name}`),
    svg("rect", { class: "box", x: at.x, y: at.y, width: BOX.width, height: BOX.height, rx: 5 }),
    text(10, 19, `s${stage.stage} · ${tasks}${decided ? ` · ${decided} decision${decided === 1 ? "" : "s"}` : ""}`, "quiet"),
    ...wrapped(stage.name, 36, 2).map((line, i) => text(10, 38 + i * 16, line)));
  if (elsewhere) {
    group.append(text(10, 76, "never written", "quiet"));
  } else if (stage.parallelism) {
    group.append(text(10, 76, `${rows(stage.rows)}, ${bytes(stage.bytes)}, ${duration(stage.duration_ms)}`, "quiet"),
      svg("rect", { class: "progress", x: at.x + 1, y: at.y + BOX.height - 4, width: (BOX.width - 2) * stage.finished / stage.parallelism, height: 3 }));
  }
  group.onclick = () => { chosen.stage = chosen.stage === stage.stage ? null : stage.stage; refresh(); };
  return group;
}

function edgeLine(link, producer, from, to) {
  const [x1, y1, x2, y2] = [from.x + BOX.width, from.y + BOX.height / 2, to.x, to.y + BOX.height / 2];
  const middle = (x1 + x2) / 2;
  const kind = !link.input ? "elsewhere" : link.input.replicated ? "whole" : "";
  const told = !link.input ? `runs in s${link.to}`
    : `${producer.output}: ${rows(link.input.rows)} read${link.input.replicated ? ", all by every task" : ""}, ${bytes(link.input.network_bytes)} over the network`;
  const line = svg("path", { class: kind, d: `M${x1} ${y1} C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}` });
  return svg("g", {}, svg("title", {}, told), line);
}

function showGraph(job) {
  const links = edges(job.stages);
  const { places, width, height } = layout(job.stages, links);
  const stage = new Map(job.stages.map((s) => [s.stage, s]));
  const decided = (id) => job.decisions.filter((d) => d.stage === id).length;
  const drawn = links.filter((link) => places.has(link.from) && places.has(link.to));
  by("graph").replaceChildren(svg("svg", { width, height, role: "img" },
    ...drawn.map((link) => edgeLine(link, stage.get(link.from), places.get(link.from), places.get(link.to))),
    ...job.stages.filter((s) => places.has(s.stage)).map((s) => stageBox(s, places.get(s.stage), decided(s.stage)))));
}

function showDecisions(decisions) {
  by("chosen").textContent = chosen.stage === null ? "" : `those of s${chosen.stage} are marked`;
  by("decisions").tBodies[0].replaceChildren(...decisions.map((d) => element("tr", { class: d.stage === chosen.stage ? "chosen" : "" },
    number(`+${duration(d.at_ms)}`), ...[`s${d.stage}`, d.rule, d.measured, d.outcome].map((text) => element("td", {}, text)))));
}

function showStage(stage) {
  by("stage").hidden = !stage;
  if (!stage) return;
  by("stage-title").textContent = `s${stage.stage} ${stage.name}`;
  by("operators").textContent = stage.operators.map((o) => `${"  ".repeat(o.depth)}${o.name}: ${rows(o.output_rows)}, `
    + duration(Math.round(o.elapsed_nanos / 1e6)) + (o.filtered_rows ? `, ${rows(o.filtered_rows)} filtered` : "")
    + (o.spilled_bytes ? `, spilled ${bytes(o.spilled_bytes)}` : "")).join("\n");
  by("attempts").tBodies[0].replaceChildren(...stage.attempts.map((a) => element("tr", {}, number(a.task), number(a.attempt),
    element("td", {}, a.task_manager), element("td", { class: a.state }, a.state), number(duration(a.duration_ms)),
    number(a.rows.toLocaleString("en")), number(bytes(a.bytes)), element("td", {}, a.cause))));
}

function showJob(job) {
  const { summary } = job;
  by("job").hidden = false;
  by("title").replaceChildren(element("span", { class: "id" }, summary.job_id), " ",
    element("span", { class: summary.state }, summary.state.replaceAll("_", " ")),
    ended(summary) ? ` after ${duration(summary.duration_ms)}` : "");
  by("statement").textContent = summary.statement;
  by("failure").hidden = !summary.failure;
  by("failure").textContent = summary.failure;
  by("plan").textContent = job.plan;
  showGraph(job);
  showDecisions(job.decisions);
  showStage(job.stages.find((s) => s.stage === chosen.stage));
}

let shown = { id: null, ended: false, stage: null };
async function refresh() {
  try {
    const [overview, { jobs }] = await Promise.all([fetched("overview"), fetched("jobs")]);
    by("login").hidden = true;
    by("problem").hidden = true;
    showCluster(overview);
    showJobs(jobs);
    if (!chosen.job && jobs.length) chosen.job = jobs[0].job_id;
    const same = shown.id === chosen.job && shown.ended && shown.stage === chosen.stage;
    if (chosen.job && !same) {
      const job = await fetched(`jobs/${encodeURIComponent(chosen.job)}`);
      showJob(job);
      shown = { id: chosen.job, ended: ended(job.summary), stage: chosen.stage };
    }
  } catch (error) {
    by("problem").hidden = false;
    by("problem").textContent = error.message;
  }
}

by("login").onsubmit = (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", by("token").value);
  by("token").value = "";
  refresh();
};
window.onhashchange = () => { chosen.job = location.hash.slice(1); chosen.stage = null; refresh(); };
refresh();
setInterval(() => { if (!document.hidden) refresh(); }, REFRESH_MS);
