// The map: a card for each zone, in it what could go there, what is free, its nodes, and the volumes on none of them.

import { fill, onArrow, settle } from "./cells.js";
import { count, el, link, number } from "./dom.js";

const MANY_NODES = 50; // of a zone: from here only those that need attention are shown until all are wanted
const NODES_AT_ONCE = 2000;
const CHIPS = 6;
const ON_SHELF = 120;

export class ZoneMap {
  #cards = new Map(); // zone -> its parts
  #rows = new Map(); // node -> its row
  #opened = new Set(); // zones whose nodes are all shown
  #shelves = new Set(); // "zone/class" whose volumes are all shown

  constructor(root, state, matches) {
    this.root = root;
    this.state = state;
    this.matches = matches;
    // A row gets its squares when it comes near the window: twenty thousand at once would be slow.
    this.near = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) this.#fillRow(entry.target);
    }, { root, rootMargin: "600px 0px" });
    root.addEventListener("keydown", onArrow);
    root.addEventListener("needed", (event) => {
      const row = event.target.closest("li");
      if (row) this.#fillRow(row);
    });
  }

  draw() {
    const zones = this.state.zones();
    this.near.disconnect();
    this.#rows.clear();
    this.#cards.clear();
    const cards = zones.map((zone) => this.#card(zone));
    this.root.replaceChildren(cards.length ? el("div", { class: "zones" }, ...cards) : nothing(this.state));
  }

  // Draw what a change touched.
  update(touched) {
    const zones = this.state.zones();
    if (touched.reorder || zones.length !== this.#cards.size || zones.some((zone) => !this.#cards.has(zone))) {
      const focused = document.activeElement?.dataset?.volume;
      const top = this.root.scrollTop;
      this.draw();
      this.root.scrollTop = top;
      if (focused) this.reveal(focused)?.focus();
      return;
    }
    for (const name of touched.nodes) this.#drawNode(name);
    const dirty = touched.waiting ? zones : touched.zones;
    for (const zone of dirty) this.#refresh(zone);
    for (const name of touched.volumes) for (const square of this.#squares(name)) square.classList.add("changed");
  }

  #matchesNode(name) {
    return this.matches.node(name) || this.state.volumesOn(name).some((volume) => this.matches.volume(volume));
  }

  #isLarge(zone) {
    return this.state.nodesIn(zone).length >= MANY_NODES;
  }

  // Show only what matches the search and the chosen states.
  filter() {
    const active = this.matches.active;
    this.root.classList.toggle("filtered", active);
    for (const square of this.root.querySelectorAll("button.cell")) this.#hide(square);
    for (const group of this.root.querySelectorAll(".cells")) settle(group);
    for (const [zone, parts] of this.#cards) {
      if (this.#isLarge(zone)) this.#drawNodes(zone, parts.nodes);
      this.#drawWaiting(zone, parts.waiting);
    }
    for (const [name, row] of this.#rows) row.hidden = active && !this.#matchesNode(name);
    for (const shelf of this.root.querySelectorAll(".shelf")) shelf.hidden = active && !shelf.querySelector("button.cell:not([hidden])");
    for (const part of this.root.querySelectorAll(".zone .nodes-part, .zone .shelves")) {
      const items = [...part.querySelectorAll("li, .shelf")];
      part.hidden = items.length === 0 ? !part.querySelector(".more-button") : active && items.every((item) => item.hidden) && !part.querySelector(".more-button");
    }
  }

  // Return a square of the volume, drawn if it was not yet.
  reveal(name) {
    const volume = this.state.volumes.get(name);
    for (const node of volume?.nodes ?? []) if (this.#rows.has(node)) this.#fillRow(this.#rows.get(node));
    return this.#squares(name)[0];
  }

  node(name) {
    return this.#rows.get(name);
  }

  mark(key) {
    for (const marked of this.root.querySelectorAll('[aria-current="true"]')) marked.removeAttribute("aria-current");
    if (!key) return;
    const [kind, ...rest] = key.split("/");
    const volume = kind === "pv" ? this.state.volumes.get(rest[0]) : kind === "pvc" ? this.state.volumeOf(rest.join("/")) : undefined;
    if (volume) this.reveal(volume.name);
    const squares = volume ? this.#squares(volume.name) : [];
    const chips = [...this.root.querySelectorAll(".chip")].filter((chip) => chip.dataset.key === key);
    for (const shown of [...squares, ...chips]) shown.setAttribute("aria-current", "true");
    squares[0]?.scrollIntoView({ block: "nearest" });
  }

  #squares(name) {
    return [...this.root.querySelectorAll(`button.cell[data-volume="${CSS.escape(name)}"]`)];
  }

  #card(zone) {
    const id = `zone-${this.#cards.size}`;
    const parts = {
      title: el("h2", { id }, zone || (this.state.zones().length > 1 ? "No zone" : "All nodes")),
      amount: el("span", { class: "soft" }),
      waiting: el("div", { class: "part" }),
      free: el("div", { class: "part" }),
      nodes: el("div", { class: "part nodes-part" }),
      shelf: el("div", { class: "part shelves" }),
    };
    this.#cards.set(zone, parts);
    const card = el("section", { class: "zone", "aria-labelledby": id, "data-zone": zone },
      el("header", {}, parts.title, parts.amount), parts.waiting, parts.free, parts.nodes, parts.shelf);
    this.#drawNodes(zone, parts.nodes);
    this.#refresh(zone);
    return card;
  }

  #refresh(zone) {
    const parts = this.#cards.get(zone);
    if (!parts) return;
    const nodes = this.state.nodesIn(zone);
    const unplaced = this.state.unplacedIn(zone);
    const volumes = nodes.reduce((sum, node) => sum + (this.state.onNode.get(node.name)?.size ?? 0), unplaced.length);
    parts.amount.textContent = `${count(nodes.length, "node")} · ${count(volumes, "volume")}`;
    this.#drawWaiting(zone, parts.waiting);
    this.#drawFree(zone, parts.free);
    this.#drawShelf(zone, parts.shelf, unplaced);
  }

  #drawWaiting(zone, part) {
    // What only this zone can take is worth more room than what every zone can.
    const rows = this.state.pendingIn(zone).filter((row) => this.matches.pending(row)).sort((a, b) => Boolean(a.everywhere) - Boolean(b.everywhere) || Boolean(b.problem) - Boolean(a.problem));
    part.hidden = rows.length === 0;
    const chips = rows.slice(0, CHIPS).map(chip);
    const more = rows.length > CHIPS ? el("span", { class: "soft" }, `and ${number.format(rows.length - CHIPS)} more, listed on the left`) : null;
    part.replaceChildren(el("h3", {}, "Could go here", el("span", { class: "count" }, number.format(rows.length))), el("div", { class: "chips" }, ...chips, more));
  }

  #drawFree(zone, part) {
    const rows = this.state.classesIn(zone);
    part.hidden = rows.length === 0;
    const driver = rows.some((row) => row.driverSize);
    const head = ["Class", "Available", "Total", "Largest", ...(driver ? ["Can be made"] : [])];
    const lines = rows.map((row) => el("tr", {},
      el("td", {}, row.storageClass || "(none)"), el("td", {}, number.format(row.volumes ?? 0)), el("td", {}, row.volumes ? row.size : "–"),
      el("td", {}, row.volumes ? row.largest : "–"), driver ? el("td", {}, row.driverSize || "–") : null));
    part.replaceChildren(el("h3", {}, "Free"), el("table", { class: "free" },
      el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, ...lines)));
  }

  #drawNodes(zone, part) {
    const all = this.state.nodesIn(zone);
    part.hidden = all.length === 0;
    const isLarge = all.length >= MANY_NODES;
    const folded = isLarge && !this.#opened.has(zone);
    // What is searched for is worth attention too.
    const wanted = (node) => (this.matches.active ? this.#matchesNode(node.name) : this.#needsAttention(node));
    const shown = (folded ? all.filter(wanted) : all).slice(0, NODES_AT_ONCE);
    const heading = folded
      ? el("h3", {}, this.matches.active ? "Nodes that match" : "Nodes that need attention", el("span", { class: "count" }, `${number.format(shown.length)} of ${number.format(all.length)}`))
      : el("h3", {}, "Nodes");
    const list = el("ul", { class: "nodes" }, ...shown.map((node) => this.#row(node)));
    const toggle = isLarge
      ? el("button", { type: "button", class: "more-button", "aria-expanded": !folded ? "true" : "false", onclick: () => this.#fold(zone, part) }, folded ? `Show all ${count(all.length, "node")}` : "Show only what needs attention")
      : null;
    part.replaceChildren(heading, ...(folded ? [list, toggle] : [toggle ?? "", list]).filter(Boolean));
  }

  #fold(zone, part) {
    if (!this.#opened.delete(zone)) this.#opened.add(zone);
    this.#drawNodes(zone, part);
    part.querySelector(".more-button")?.focus();
  }

  #needsAttention(node) {
    const nearlyFull = node.limit && node.attached >= node.limit * 0.9;
    return (node.state ?? "Ready") !== "Ready" || nearlyFull || this.state.volumesOn(node.name).some((volume) => volume.unhealthy);
  }

  #row(node) {
    const row = el("li", { "data-node": node.name });
    this.#rows.set(node.name, row);
    this.#drawRow(row, node);
    this.near.observe(row);
    return row;
  }

  #drawRow(row, node) {
    const amount = this.state.onNode.get(node.name)?.size ?? 0;
    const state = node.state ?? "Ready";
    const badge = state === "Ready" ? null : el("span", { class: state === "Cordoned" ? "badge" : "badge bad" }, state);
    row.replaceChildren(
      el("span", { class: "name" }, el("button", { type: "button", "data-key": `node/${node.name}`, "aria-label": `node ${node.name}, ${state}, ${count(amount, "volume")}` }, node.name), badge),
      meter(node, amount),
      amount ? el("div", { class: "cells", role: "group", "aria-label": `volumes on ${node.name}` }) : "",
    );
    delete row.dataset.filled;
  }

  #drawNode(name) {
    const node = this.state.nodes.get(name);
    const row = this.#rows.get(name);
    if (!node || !row) return;
    const focused = row.contains(document.activeElement) ? document.activeElement.dataset.volume : undefined;
    const wasFilled = row.dataset.filled;
    this.#drawRow(row, node);
    if (wasFilled) this.#fillRow(row);
    if (focused) row.querySelector(`[data-volume="${CSS.escape(focused)}"]`)?.focus();
  }

  #fillRow(row) {
    if (row.dataset.filled) return;
    row.dataset.filled = "yes";
    const group = row.querySelector(".cells");
    if (!group) return;
    fill(group, this.state.volumesOn(row.dataset.node));
    this.#narrow(group);
  }

  #narrow(group) {
    if (!this.matches.active) return;
    for (const square of group.children) this.#hide(square);
    settle(group);
  }

  #hide(square) {
    const volume = this.state.volumes.get(square.dataset.volume);
    square.hidden = this.matches.active && !(volume && this.matches.volume(volume));
  }

  #drawShelf(zone, part, volumes) {
    part.hidden = volumes.length === 0;
    const byClass = Map.groupBy ? Map.groupBy(volumes, (volume) => volume.storageClass ?? "") : grouped(volumes);
    const shelves = [...byClass].map(([name, members]) => {
      const key = `${zone}/${name}`;
      const most = this.#shelves.has(key) ? 5000 : ON_SHELF;
      const group = el("div", { class: "cells", role: "group", "aria-label": `volumes of class ${name || "(none)"} on no node` });
      fill(group, members, most);
      this.#narrow(group);
      const more = members.length > most ? el("button", { type: "button", class: "more-button", onclick: () => { this.#shelves.add(key); this.#refresh(zone); } }, `Show all ${number.format(members.length)}`) : null;
      return el("div", { class: "shelf" }, el("p", {}, el("span", { class: "mono" }, name || "(no class)"), ` · ${number.format(members.length)}`), group, more);
    });
    part.replaceChildren(el("h3", {}, this.state.nodes.size ? "On no node" : "Volumes"), ...shelves);
  }
}

function chip(row) {
  const [kind, ...rest] = row.key.split("/");
  return el("a", { class: "chip", href: link(row.key), "data-key": row.key, title: row.message },
    mark(row), el("span", { class: "mono" }, rest.join("/")), el("span", { class: "code" }, `${kind === "pvc" ? "claim · " : ""}${row.code ?? "…"}`));
}

// What the command prints before an object: a problem, normal, or not known.
export function mark(row) {
  if (!row.code) return el("span", { class: "mark unsure", role: "img", "aria-label": "the cause is being determined" }, "…");
  if (row.conclusive === false) return el("span", { class: "mark unsure", role: "img", "aria-label": "inconclusive" }, "?");
  return row.problem ? el("span", { class: "mark problem", role: "img", "aria-label": "problem" }, "✗") : el("span", { class: "mark normal", role: "img", "aria-label": "normal" }, "○");
}

function meter(node, amount) {
  if (!node.limit) return el("span", { class: "meter" }, el("span", {}, amount ? number.format(amount) : ""));
  const share = Math.min(1, (node.attached ?? 0) / node.limit);
  const bar = el("b");
  bar.style.width = `${Math.round(share * 100)}%`;
  return el("span", { class: share >= 0.9 ? "meter full" : "meter", title: `${node.attached ?? 0} of ${node.limit} volumes of ${node.driver} attached` }, el("i", { "aria-hidden": "true" }, bar), el("span", {}, `${node.attached ?? 0}/${node.limit}`));
}

function nothing(state) {
  return el("p", { class: "plain soft" }, state.unreadable.length ? "No volume or node may be read with these permissions." : "There are no volumes and no nodes.");
}

function grouped(volumes) {
  const groups = new Map();
  for (const volume of volumes) {
    const name = volume.storageClass ?? "";
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(volume);
  }
  return groups;
}
