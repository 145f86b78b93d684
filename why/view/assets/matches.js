// What is searched for, and which states are shown.

import { compare } from "./state.js";

const MOST = 40;

export class Matches {
  #words = [];
  #states = new Set();

  constructor(state) {
    this.table = state;
  }

  get active() {
    return this.#words.length > 0 || this.#states.size > 0;
  }

  get states() {
    return [...this.#states];
  }

  get text() {
    return this.#words.join(" ");
  }

  has(state) {
    return this.#states.has(state);
  }

  search(text) {
    this.#words = text.toLowerCase().split(/\s+/).filter(Boolean);
  }

  // Show this state too, or no longer.
  toggle(state) {
    if (!this.#states.delete(state)) this.#states.add(state);
  }

  restore(states, text) {
    this.#states = new Set(states);
    this.search(text);
  }

  volume(volume) {
    const wanted = !this.#states.size || this.#states.has(volume.state) || (this.#states.has("Unhealthy") && Boolean(volume.unhealthy));
    return wanted && (this.#words.length === 0 || this.#holds(textOf(volume)));
  }

  node(name) {
    return !this.#states.size && this.#words.length > 0 && this.#holds(name.toLowerCase());
  }

  pending(row) {
    return this.#words.length === 0 || this.#holds(`${row.key} ${row.code ?? ""} ${row.storageClass ?? ""} ${row.pod ?? ""} ${(row.zones ?? []).join(" ")}`.toLowerCase());
  }

  // Keys of the objects that match, best first, and how many there are.
  found() {
    if (!this.#words.length) return { keys: [], more: 0 };
    const { volumes, pending, pods, nodes } = this.table;
    const named = (name) => this.#holds(name.toLowerCase());
    const claims = [...volumes.values()].map((volume) => volume.claim).filter((claim) => claim && named(claim));
    // What waits first: that is what people look for.
    const keys = new Set([
      ...[...pending.values()].filter((row) => this.pending(row)).map((row) => row.key),
      ...sorted(claims).map((claim) => `pvc/${claim}`),
      ...sorted([...volumes.keys()].filter((name) => this.#holds(textOf(volumes.get(name))))).map((name) => `pv/${name}`),
      ...sorted([...pods.keys()].filter(named)).map((key) => `pod/${key}`),
      ...sorted([...nodes.keys()].filter(named)).map((name) => `node/${name}`),
    ]);
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

// Only what is short enough to be shown as a whole is worth the order.
const sorted = (names) => (names.length > 1000 ? names : names.sort(compare));
