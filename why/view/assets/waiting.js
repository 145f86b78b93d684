// The list of what waits, by root cause: problems first, then what is inconclusive, then what is normal.

import { age, count, el, link, number } from "./dom.js";
import { mark } from "./map.js";

const AT_FIRST = 5;
const AT_MOST = 500;

export class WaitingList {
  #opened = new Set();

  constructor(root, state, matches) {
    this.root = root;
    this.state = state;
    this.matches = matches;
    this.current = "";
  }

  draw() {
    const rows = this.state.waiting().filter((row) => this.matches.pending(row));
    const problems = rows.filter((row) => row.problem).length;
    const heading = el("h2", {}, "Waiting", el("span", {}, rows.length ? `${number.format(rows.length)}${problems ? ` · ${count(problems, "problem")}` : ""}` : ""));
    const focused = document.activeElement?.closest?.("#waiting [data-key]")?.dataset.key;
    const body = rows.length ? causes(rows).map((cause) => this.#cause(cause)) : [el("p", { class: "empty" }, this.matches.active ? "Nothing that is pending matches." : "Nothing is pending.")];
    this.root.replaceChildren(heading, ...body);
    if (focused) [...this.root.querySelectorAll("[data-key]")].find((item) => item.dataset.key === focused)?.focus();
  }

  mark(key) {
    this.current = key;
    for (const item of this.root.querySelectorAll("[data-key]")) {
      if (item.dataset.key === key) item.setAttribute("aria-current", "true");
      else item.removeAttribute("aria-current");
    }
  }

  #cause(rows) {
    const [first] = rows;
    const name = first.code ?? "Being determined";
    const opened = this.#opened.has(name);
    const shown = rows.slice(0, opened ? AT_MOST : AT_FIRST);
    const same = rows.every((row) => row.message === first.message);
    const rest = rows.length - shown.length;
    const more = rest > 0 ? el("button", { type: "button", class: "more-button", onclick: () => { this.#opened.add(name); this.draw(); } }, opened ? `${number.format(rest)} more: narrow the search` : `Show all ${number.format(rows.length)}`) : null;
    return el("section", { class: "cause" },
      el("h3", {}, mark(first), name, el("span", { class: "count" }, number.format(rows.length))),
      same && first.message ? el("p", { class: "message" }, first.message) : null,
      el("ul", {}, ...shown.map((row) => el("li", {}, this.#item(row)))), more);
  }

  #item(row) {
    const [kind, ...rest] = row.key.split("/");
    const old = age(row.since, this.state.now());
    const details = [kind === "pod" ? "pod" : row.storageClass ? `claim of class ${row.storageClass}` : "claim", row.size, where(row), old];
    return el("button", { type: "button", "data-key": row.key, "aria-current": row.key === this.current ? "true" : null, title: row.message, onclick: () => { location.hash = link(row.key); } },
      el("span", { class: "mono" }, rest.join("/")), el("span", { class: "where" }, details.filter(Boolean).join(" · ")));
  }
}

function where(row) {
  if (row.node) return `on ${row.node}`;
  if (!row.code) return "";
  if (row.everywhere) return "any zone";
  return row.zones?.length ? row.zones.join(", ") : "fits no zone";
}

function causes(rows) {
  const groups = new Map();
  for (const row of rows) {
    const name = `${row.code ?? ""}/${Boolean(row.problem)}`;
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(row);
  }
  const rank = ([row]) => (row.problem ? 0 : row.conclusive === false ? 1 : row.code ? 2 : 3);
  return [...groups.values()].sort((a, b) => rank(a) - rank(b) || b.length - a.length);
}
