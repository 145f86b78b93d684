// What the server said, by table and key, and the indexes that the page asks for.

const TABLES = ["volumes", "nodes", "classes", "pending", "pods"];
const NONE = new Set();

export class State {
  constructor() {
    this.clear();
  }

  clear() {
    for (const table of TABLES) this[table] = new Map();
    this.onNode = new Map(); // node -> names of the volumes there
    this.unplaced = new Map(); // zone -> names of the volumes on no node
    this.source = "";
    this.live = false;
    this.at = "";
    this.stale = null;
    this.unreadable = [];
  }

  // Take a whole view.
  replace(view) {
    this.clear();
    Object.assign(this, { source: view.source, live: view.live, at: view.at, stale: view.stale, unreadable: view.unreadable });
    for (const table of TABLES) this[table] = new Map(Object.entries(view[table]));
    for (const volume of this.volumes.values()) this.#file(volume);
  }

  // Take a change. Returns what is to be drawn anew: nodes, zones, volumes, and whether the order of nodes changed.
  apply(change) {
    const touched = { nodes: new Set(), zones: new Set(), volumes: new Set(), reorder: false, waiting: false };
    Object.assign(this, { at: change.at, stale: change.stale, unreadable: change.unreadable });
    const gone = change.gone ?? {};
    for (const name of gone.volumes ?? []) this.#drop(name, touched);
    for (const [name, volume] of Object.entries(change.volumes ?? {})) {
      this.#drop(name, touched);
      this.volumes.set(name, volume);
      touched.volumes.add(name);
      for (const place of this.#file(volume)) touched[place.kind].add(place.name);
      touched.zones.add(volume.zone);
    }
    for (const [name, node] of Object.entries(change.nodes ?? {})) {
      const known = this.nodes.get(name);
      touched.reorder ||= known?.zone !== node.zone;
      this.nodes.set(name, node);
      touched.nodes.add(name);
      touched.zones.add(node.zone);
    }
    for (const name of gone.nodes ?? []) {
      this.nodes.delete(name);
      touched.reorder = true;
    }
    if (touched.reorder) this.#refile();
    for (const table of ["classes", "pending", "pods"]) {
      const rows = Object.entries(change[table] ?? {});
      for (const [key, row] of rows) this[table].set(key, row);
      for (const key of gone[table] ?? []) this[table].delete(key);
      if (table !== "pods" && (rows.length || gone[table]?.length)) touched.waiting = true;
    }
    return touched;
  }

  // The moment that ages count from: a file stays as old as it is.
  now() {
    return this.live ? Date.now() : Date.parse(this.at);
  }

  // The zones in the order in which they are shown; "" is what belongs to none.
  zones() {
    const names = new Set();
    for (const row of this.nodes.values()) names.add(row.zone);
    for (const [zone, volumes] of this.unplaced) if (volumes.size) names.add(zone);
    for (const row of this.classes.values()) names.add(row.zone);
    for (const row of this.pending.values()) if (!row.node && this.#isOfNoZone(row)) names.add("");
    return [...names].sort((a, b) => (a === "") - (b === "") || compare(a, b));
  }

  nodesIn(zone) {
    return [...this.nodes.values()].filter((node) => node.zone === zone).sort((a, b) => compare(a.name, b.name));
  }

  volumesOn(node) {
    return this.#sorted(this.onNode.get(node) ?? NONE);
  }

  unplacedIn(zone) {
    return this.#sorted(this.unplaced.get(zone) ?? NONE);
  }

  classesIn(zone) {
    return [...this.classes.values()].filter((row) => row.zone === zone);
  }

  // What waits, as the command lists it: pods, and claims that no such pod uses.
  waiting() {
    return [...this.pending.values()].filter((row) => row.key.startsWith("pod/") || !this.pending.has(`pod/${row.pod ?? ""}`));
  }

  // What could be placed in a zone. A pod that has a node is placed.
  pendingIn(zone) {
    return this.waiting().filter((row) => !row.node && (zone === "" ? this.#isOfNoZone(row) : row.zones?.includes(zone)));
  }

  // The volume of a claim that has one.
  volumeOf(claim) {
    for (const volume of this.volumes.values()) if (volume.claim === claim) return volume;
    return undefined;
  }

  #isOfNoZone(row) {
    return Boolean(row.everywhere) && !row.zones?.length;
  }

  #sorted(names) {
    const rows = [...names].map((name) => this.volumes.get(name));
    return rows.sort((a, b) => Boolean(b.unhealthy) - Boolean(a.unhealthy) || compare(a.storageClass ?? "", b.storageClass ?? "") || compare(a.name, b.name));
  }

  #places(volume) {
    const known = (volume.nodes ?? []).filter((name) => this.nodes.has(name));
    return known.length ? known.map((name) => ({ kind: "nodes", name })) : [{ kind: "zones", name: volume.zone }];
  }

  #file(volume) {
    const places = this.#places(volume);
    for (const { kind, name } of places) {
      const index = kind === "nodes" ? this.onNode : this.unplaced;
      if (!index.has(name)) index.set(name, new Set());
      index.get(name).add(volume.name);
    }
    return places;
  }

  #drop(name, touched) {
    const volume = this.volumes.get(name);
    if (!volume) return;
    for (const node of volume.nodes ?? []) {
      if (this.onNode.get(node)?.delete(name)) touched.nodes.add(node);
    }
    if (this.unplaced.get(volume.zone)?.delete(name)) touched.zones.add(volume.zone);
    this.volumes.delete(name);
    touched.zones.add(volume.zone);
  }

  #refile() {
    this.onNode.clear();
    this.unplaced.clear();
    for (const volume of this.volumes.values()) this.#file(volume);
  }
}

// One collator for all: to make one for each comparison costs more than the comparison.
export const compare = new Intl.Collator("en", { numeric: true }).compare;
