// Puts the page together: the stream fills the state, the state is drawn, the address says what is open.

import { sample, STATES } from "./cells.js";
import { Details } from "./details.js";
import { byId, count, el, link, number, routed } from "./dom.js";
import { ZoneMap } from "./map.js";
import { Matches, tally } from "./matches.js";
import { State } from "./state.js";
import { Connection } from "./stream.js";
import { VolumeTable } from "./table.js";
import { WaitingList } from "./waiting.js";

const state = new State();
const matches = new Matches(state);
const main = byId("map");
let asTable = false;
let opener = null;
let problems = -1;

const connection = new Connection({
  view: (data) => { state.replace(data); drawAll(); },
  change: (data) => changed(state.apply(data)),
  linked: () => linked(),
  broken: (reason) => link_state("broken", "Disconnected", reason),
  unauthorized: (reason) => askForToken(reason),
});
const map = new ZoneMap(main, state, matches);
const table = new VolumeTable(main, state, matches);
const waiting = new WaitingList(byId("waiting"), state, matches);
const details = new Details(byId("details"), state, connection, () => { location.hash = ""; });

function drawAll() {
  byId("source").textContent = state.source;
  byId("source").title = state.source;
  document.title = `${state.source} · Volumes`;
  drawMain();
  drawAround();
  route();
}

function drawMain() {
  if (asTable) {
    table.draw();
  } else {
    map.draw();
    map.filter();
  }
}

function drawAround() {
  linked();
  drawLegend();
  drawNotice();
  waiting.draw();
  announce();
}

let pendingTouch = null;
function changed(touched) {
  if (pendingTouch) return merge(pendingTouch, touched);
  pendingTouch = touched;
  requestAnimationFrame(() => {
    const all = pendingTouch;
    pendingTouch = null;
    if (asTable) table.draw();
    else {
      map.update(all);
      if (matches.active) map.filter();
    }
    drawAround();
    map.mark(current());
    details.refresh();
  });
}

function merge(all, more) {
  for (const table of ["nodes", "zones", "volumes"]) for (const name of more[table]) all[table].add(name);
  all.reorder ||= more.reorder;
  all.waiting ||= more.waiting;
}

// Where the page stands.

const current = () => routed(location.hash);

function route() {
  const key = current();
  if (key && !byId("details").contains(document.activeElement) && document.activeElement !== document.body) opener = document.activeElement;
  details.open(key);
  if (!asTable) map.mark(key);
  waiting.mark(key);
  if (!key && opener?.isConnected) opener.focus();
  if (!key) opener = null;
}

addEventListener("hashchange", () => {
  route();
  if (current()) details.focus();
});

main.addEventListener("click", (event) => {
  const square = event.target.closest("button.cell");
  const named = event.target.closest("[data-key]");
  if (square) location.hash = link(`pv/${square.dataset.volume}`);
  else if (named) location.hash = link(named.dataset.key);
});

addEventListener("keydown", (event) => {
  const typing = event.target.matches?.("input, textarea");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    byId("search").focus();
  } else if (event.key === "Escape" && !typing && current()) location.hash = "";
});

for (const [id, wanted] of [["as-map", false], ["as-table", true]]) {
  byId(id).addEventListener("click", () => {
    showAs(wanted);
    remember();
    main.scrollTop = 0;
    drawMain();
    if (!asTable) map.mark(current());
  });
}

function showAs(wanted) {
  asTable = wanted;
  byId("as-map").setAttribute("aria-pressed", String(!asTable));
  byId("as-table").setAttribute("aria-pressed", String(asTable));
}

// What is shown is in the address too, so that it can be sent to others: ?show=Unhealthy&find=kafka&view=table&sort=-size

function remember() {
  const query = new URLSearchParams();
  for (const shown of matches.states) query.append("show", shown);
  if (matches.text) query.set("find", matches.text);
  if (asTable) query.set("view", "table");
  if (table.order) query.set("sort", table.order);
  history.replaceState(null, "", `${location.pathname}${query.size ? `?${query}` : ""}${location.hash}`);
}

function recall() {
  const query = new URLSearchParams(location.search);
  const known = new Set([...STATES.map(([name]) => name), "Unhealthy"]);
  matches.restore(query.getAll("show").filter((name) => known.has(name)), query.get("find") ?? "");
  search.value = matches.text;
  table.order = query.get("sort") ?? "";
  showAs(query.get("view") === "table");
}

table.ordered = (order) => {
  table.order = order;
  remember();
  table.draw();
};

// Legend, notice, what is read out.

function drawLegend() {
  const counts = tally(state.volumes);
  const focused = document.activeElement?.dataset?.state;
  const buttons = STATES.filter(([name], place) => place < 5 || counts.get(name)).map(([name, meaning]) => legendButton(name, meaning, counts.get(name) ?? 0, sample(name)));
  const unhealthy = counts.get("Unhealthy") ?? 0;
  byId("legend").replaceChildren(...buttons, legendButton("Unhealthy", "Degraded, Inaccessible or DataLoss", unhealthy, sample("Bound", "Inaccessible")), el("span", { class: "gap" }),
    el("span", { class: "soft" }, `${count(state.nodes.size, "node")} · ${count(state.volumes.size, "volume")}`));
  if (focused) byId("legend").querySelector(`[data-state="${focused}"]`)?.focus();
}

function legendButton(name, meaning, amount, shape) {
  return el("button", { type: "button", class: amount ? "" : "none", "data-state": name, title: meaning, "aria-pressed": matches.has(name) ? "true" : "false", onclick: () => { matches.toggle(name); refilter(); } },
    shape, name, el("b", {}, number.format(amount)));
}

function drawNotice() {
  const notice = byId("notice");
  const unread = state.unreadable.filter((each) => ["persistentvolumes", "persistentvolumeclaims", "nodes", "pods", "storageclasses", "volumeattachments"].includes(each.resource) && state.live);
  const lines = [
    state.stale ? `The API server has not answered since ${state.stale.slice(11, 19)} UTC; this is what was known then.` : "",
    unread.length ? `Not read: ${unread.map((each) => `${each.resource} (${each.because})`).join(", ")}. What depends on it is left out.` : "",
  ].filter(Boolean);
  notice.hidden = lines.length === 0;
  if (notice.textContent !== lines.join(" ")) notice.textContent = lines.join(" ");
}

function announce() {
  const now = state.waiting().filter((row) => row.problem).length;
  if (problems >= 0 && now !== problems) byId("status").textContent = `${count(now, "object")} waiting with a problem`;
  problems = now;
}

function linked() {
  if (!state.live && state.source) link_state("file", "From a file", "a file does not change");
  else if (state.stale) link_state("broken", "Not up to date", "the API server does not answer");
  else link_state("live", "Live", "changes show as they happen");
}

function link_state(name, text, title) {
  const shown = byId("link");
  shown.dataset.link = name;
  shown.title = title ?? "";
  if (shown.lastElementChild.textContent !== text) shown.lastElementChild.textContent = text;
}

// Search.

const search = byId("search");
const results = byId("results");
let chosen = -1;
let typed = 0;

function refilter() {
  remember();
  if (asTable) table.draw();
  else map.filter();
  drawLegend();
  waiting.draw();
}

function drawResults() {
  const { keys, more } = matches.found();
  chosen = -1;
  const items = keys.map((key, place) => {
    const [kind, ...rest] = key.split("/");
    return el("li", { role: "option", id: `result-${place}`, "data-open": key, "aria-selected": "false" }, el("span", { class: "kind" }, kind), el("span", { class: "mono" }, rest.join("/")));
  });
  if (more) items.push(el("li", { class: "more" }, `and ${number.format(more)} more`));
  if (!items.length && search.value.trim()) items.push(el("li", { class: "more" }, "Nothing matches."));
  results.replaceChildren(...items);
  show(items.length > 0 && document.activeElement === search);
}

function show(visible) {
  results.hidden = !visible;
  search.setAttribute("aria-expanded", String(visible));
}

function choose(place) {
  const options = [...results.querySelectorAll("[data-open]")];
  if (!options.length) return;
  chosen = (place + options.length) % options.length;
  options.forEach((option, each) => option.setAttribute("aria-selected", String(each === chosen)));
  options[chosen].scrollIntoView({ block: "nearest" });
  search.setAttribute("aria-activedescendant", options[chosen].id);
}

function open(key) {
  show(false);
  location.hash = link(key);
}

search.addEventListener("input", () => {
  matches.search(search.value);
  clearTimeout(typed);
  typed = setTimeout(() => { drawResults(); refilter(); }, 60);
});
search.addEventListener("focus", () => { if (search.value) drawResults(); });
search.addEventListener("blur", () => setTimeout(() => show(false), 150));
search.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") { event.preventDefault(); choose(chosen + 1); }
  else if (event.key === "ArrowUp") { event.preventDefault(); choose(chosen - 1); }
  else if (event.key === "Enter") {
    const options = [...results.querySelectorAll("[data-open]")];
    const wanted = options[Math.max(0, chosen)];
    if (wanted) open(wanted.dataset.open);
  } else if (event.key === "Escape") {
    search.value = "";
    matches.search("");
    show(false);
    refilter();
    main.focus();
  }
});
results.addEventListener("mousedown", (event) => {
  const item = event.target.closest("[data-open]");
  if (item) open(item.dataset.open);
});

// Light and dark.

const THEMES = ["auto", "light", "dark"];
const dark = matchMedia("(prefers-color-scheme: dark)");

function theme() {
  const wanted = stored();
  document.documentElement.dataset.theme = wanted === "auto" ? (dark.matches ? "dark" : "light") : wanted;
  byId("theme").textContent = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" }[wanted];
  byId("theme").setAttribute("aria-label", `Colours: ${wanted}`);
}

function stored() {
  try {
    const wanted = localStorage.getItem("theme");
    return THEMES.includes(wanted) ? wanted : "auto";
  } catch {
    return "auto";
  }
}

byId("theme").addEventListener("click", () => {
  try {
    localStorage.setItem("theme", THEMES[(THEMES.indexOf(stored()) + 1) % THEMES.length]);
  } catch { /* without storage it stays as the system has it */ }
  theme();
});
dark.addEventListener("change", theme);
theme();

// A page in the cluster asks for the caller's token.

function askForToken(reason) {
  link_state("broken", "No token", reason);
  state.clear();
  details.open("");
  document.body.classList.add("locked");
  const field = el("textarea", { id: "token", autocomplete: "off", spellcheck: "false", required: true });
  const namespace = el("input", { id: "only", type: "text", autocomplete: "off", spellcheck: "false" });
  const form = el("form", { class: "token" },
    el("h2", {}, "Your token"),
    el("p", {}, "This page answers with your own permissions. Paste a bearer token of the cluster, such as the one that this prints:"),
    el("p", {}, el("code", {}, "kubectl create token NAME --duration 1h")),
    connection.hasToken ? el("p", { class: "rejected", role: "alert" }, reason) : null,
    el("label", { class: "hidden", for: "token" }, "Bearer token"), field,
    el("p", { class: "only" }, el("label", { for: "only" }, "Namespace, if you may not read all of them "), namespace),
    el("button", { type: "submit" }, "Show"),
    el("p", { class: "kept soft" }, "It stays in this page's memory until the page is closed."));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    connection.use(field.value, namespace.value);
    main.replaceChildren();
    document.body.classList.remove("locked");
    connection.follow();
  });
  main.replaceChildren(form);
  field.focus();
}

recall();
connection.follow();
