// What is searched for, and which states are shown.

import { UNHEALTHY } from "./cells.js";

const MOST = 40;

export class Matches {
  #words = [];
  #state = "";

  constructor(state) {
    this.table = state;
  }

  get active() {
    return this.#words.length > 0 || this.#state !== "";
  }

  get chosen() {
    return this.#state;
  }

  search(text) {
    this.#words = text.toLowerCase().split(/\s+/).filter(Boolean);
  }

  choose(state) {
    this.#state = this.#state === state ? "" : state;
  }

  volume(volume) {
    const wanted = !this.#state || (this.#state === "Unhealthy" ? Boolean(volume.unhealthy) : volume.state === this.#state);
    return wanted && (this.#words.length === 0 || this.#holds(textOf(volume)));
  }

  node(name) {
    return !this.#state && this.#words.length > 0 && this.#holds(name.toLowerCase());
  }

  pending(row) {
    return this.#words.length === 0 || this.#holds(`${row.key} ${row.code ?? ""} ${row.storageClass ?? ""} ${row.pod ?? ""} ${(row.zones ?? []).join(" ")}`.toLowerCase());
  }

  // Keys of the objects that match, best first, and how many there are.
  found() {
    if (!this.#words.length) return { keys: [], more: 0 };
    const { volumes, pending, pods, nodes } = this.table;
    const keys = new Set();
    for (const row of pending.values()) if (this.pending(row)) keys.add(row.key);
    for (const name of nodes.keys()) if (this.#holds(name.toLowerCase())) keys.add(`node/${name}`);
    for (const pod of pods.values()) if (this.#holds(pod.key.toLowerCase())) keys.add(`pod/${pod.key}`);
    for (const volume of volumes.values()) {
      if (volume.claim && this.#holds(volume.claim.toLowerCase())) keys.add(`pvc/${volume.claim}`);
      if (this.#holds(textOf(volume))) keys.add(`pv/${volume.name}`);
    }
    return { keys: [...keys].slice(0, MOST), more: Math.max(0, keys.size - MOST) };
  }

  #holds(text) {
    return this.#words.every((word) => text.includes(word));
  }
}

export function tally(volumes) {
  const counts = new Map();
  for (const volume of volumes.values()) {
    counts.set(volume.state, (counts.get(volume.state) ?? 0) + 1);
    if (volume.unhealthy) counts.set("Unhealthy", (counts.get("Unhealthy") ?? 0) + 1);
  }
  return counts;
}

const textOf = (volume) => `${volume.name} ${volume.claim ?? ""} ${volume.storageClass ?? ""} ${volume.state} ${volume.health ?? ""} ${volume.zone} ${(volume.nodes ?? []).join(" ")} ${(volume.pods ?? []).join(" ")} ${volume.driver ?? ""}`.toLowerCase();

export const WORST = UNHEALTHY;
