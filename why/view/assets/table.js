// The same volumes as a table, for whoever reads line by line.

import { healthOf, sample } from "./cells.js";
import { el, link, number } from "./dom.js";
import { compare } from "./state.js";

const STEP = 200;

export class VolumeTable {
  #shown = STEP;

  constructor(root, state, matches) {
    Object.assign(this, { root, state, matches });
  }

  draw() {
    const rows = [...this.state.volumes.values()].filter((volume) => this.matches.volume(volume));
    rows.sort((a, b) => Boolean(b.unhealthy) - Boolean(a.unhealthy) || compare(a.zone, b.zone) || compare(a.name, b.name));
    const heads = ["Volume", "State", "Health", "Zone", "Node", "Claim", "Class", "Size"];
    const table = el("table", { class: "volumes" },
      el("caption", { class: "hidden" }, "Volumes"),
      el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))),
      el("tbody", {}, ...rows.slice(0, this.#shown).map(line)));
    const rest = rows.length - this.#shown;
    this.root.replaceChildren(table, el("div", { class: "table-foot soft" }, `${number.format(Math.min(rows.length, this.#shown))} of ${number.format(rows.length)} volumes `,
      rest > 0 ? el("button", { type: "button", class: "copy", onclick: () => { this.#shown += STEP; this.draw(); } }, `Show ${number.format(Math.min(STEP, rest))} more`) : null));
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
