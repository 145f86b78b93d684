// The same volumes as a table, for whoever reads line by line.

import { healthOf, sample } from "./cells.js";
import { el, link, number } from "./dom.js";
import { compare } from "./state.js";

const STEP = 200;

// What each column shows, and what it is ordered by: text, or a number.
const COLUMNS = [
  ["Volume", "name", (volume) => volume.name],
  ["State", "state", (volume) => volume.state],
  ["Health", "health", (volume) => (volume.unhealthy ? `0 ${healthOf(volume)}` : `1 ${healthOf(volume)}`)],
  ["Zone", "zone", (volume) => volume.zone],
  ["Node", "node", (volume) => (volume.nodes ?? []).join(", ")],
  ["Claim", "claim", (volume) => volume.claim ?? ""],
  ["Class", "class", (volume) => volume.storageClass ?? ""],
  ["Size", "size", (volume) => volume.bytes ?? 0],
];

const inOrder = (a, b) => (typeof a === "number" ? a - b : compare(a, b));

export class VolumeTable {
  #shown = STEP;
  order = ""; // the name of a column, with a minus before it for the reverse; empty: unhealthy ones first

  constructor(root, state, matches) {
    Object.assign(this, { root, state, matches });
  }

  draw() {
    const rows = [...this.state.volumes.values()].filter((volume) => this.matches.volume(volume));
    rows.sort(this.#comparison());
    const focused = this.root.contains(document.activeElement) ? document.activeElement.dataset.order : undefined;
    const table = el("table", { class: "volumes" },
      el("caption", { class: "hidden" }, "Volumes"),
      el("thead", {}, el("tr", {}, ...COLUMNS.map(([head, name]) => this.#head(head, name)))),
      el("tbody", {}, ...rows.slice(0, this.#shown).map(line)));
    const rest = rows.length - this.#shown;
    this.root.replaceChildren(table, el("div", { class: "table-foot soft" }, `${number.format(Math.min(rows.length, this.#shown))} of ${number.format(rows.length)} volumes `,
      rest > 0 ? el("button", { type: "button", class: "copy", onclick: () => { this.#shown += STEP; this.draw(); } }, `Show ${number.format(Math.min(STEP, rest))} more`) : null));
    if (focused) this.root.querySelector(`[data-order="${focused}"]`)?.focus();
  }

  #comparison() {
    const down = this.order.startsWith("-");
    const column = COLUMNS.find(([, name]) => name === this.order.replace("-", ""));
    if (!column) return (a, b) => Boolean(b.unhealthy) - Boolean(a.unhealthy) || compare(a.zone, b.zone) || compare(a.name, b.name);
    const [, , value] = column;
    return (a, b) => (down ? -1 : 1) * inOrder(value(a), value(b)) || compare(a.name, b.name);
  }

  // A column is ordered upwards first, then downwards, then as at the beginning.
  #head(text, name) {
    const direction = this.order === name ? "ascending" : this.order === `-${name}` ? "descending" : null;
    const next = direction === "ascending" ? `-${name}` : direction === "descending" ? "" : name;
    const arrow = el("span", { "aria-hidden": "true", class: "arrow" }, direction === "ascending" ? "▲" : direction === "descending" ? "▼" : "");
    return el("th", { scope: "col", "aria-sort": direction }, el("button", { type: "button", "data-order": name, onclick: () => this.ordered(next) }, text, arrow));
  }
}

function line(volume) {
  return el("tr", {},
    el("td", { class: "mono" }, el("a", { href: link(`pv/${volume.name}`) }, volume.name)),
    el("td", {}, sample(volume.state, volume.unhealthy ? volume.health : ""), volume.state),
    el("td", {}, healthOf(volume)),
    el("td", {}, volume.zone), el("td", { class: "mono" }, (volume.nodes ?? []).join(", ")),
    el("td", { class: "mono" }, volume.claim ? el("a", { href: link(`pvc/${volume.claim}`) }, volume.claim) : ""),
    el("td", {}, volume.storageClass ?? ""), el("td", {}, volume.size ?? ""));
}
