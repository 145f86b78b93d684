// What is known of one object, and the text of `pvc-prebinder why` about it.

import { healthOf, sample } from "./cells.js";
import { age, el, link } from "./dom.js";

const KINDS = { pv: "PersistentVolume", pvc: "PersistentVolumeClaim", pod: "Pod", node: "Node" };
const REFRESH = 2000; // ms between two questions about the same object

export class Details {
  #key = "";
  #asked = 0;
  #asking = null;
  #again = 0;
  #answer = null;

  constructor(root, state, connection, close) {
    Object.assign(this, { root, state, connection, close });
  }

  open(key) {
    if (key !== this.#key) {
      this.#key = key;
      this.#answer = null;
      this.#asked = 0;
      this.root.scrollTop = 0;
    }
    this.root.hidden = !key;
    if (!key) return;
    this.draw();
    this.#ask();
  }

  // Something changed: facts at once, the text soon.
  refresh() {
    if (!this.#key) return;
    this.draw();
    clearTimeout(this.#again);
    this.#again = setTimeout(() => this.#ask(), Math.max(0, this.#asked + REFRESH - performance.now()));
  }

  draw() {
    const [kind, ...rest] = this.#key.split("/");
    const name = rest.join("/");
    const focused = this.root.contains(document.activeElement) ? document.activeElement.dataset.act : undefined;
    this.root.replaceChildren(
      el("header", {},
        el("div", {}, el("p", { class: "kind" }, KINDS[kind] ?? kind), el("h2", { tabindex: -1, "data-act": "title" }, name)),
        el("button", { type: "button", class: "close quiet", "aria-label": "Close details", "data-act": "close", onclick: this.close }, "×")),
      facts(this.#facts(kind, name)),
      ...(kind === "node" ? [] : this.#why()),
    );
    if (focused) this.root.querySelector(`[data-act="${CSS.escape(focused)}"]`)?.focus();
  }

  focus() {
    this.root.querySelector("h2")?.focus();
  }

  #why() {
    const answer = this.#answer;
    if (!answer) return [el("p", { class: "soft" }, "Asking why …")];
    if (answer.error) return [el("h3", {}, "Why"), el("pre", { id: "why" }, answer.error)];
    const steps = answer.report.items.flatMap((item) => item.next.map((command, place) => [command, item.advice[place]]));
    return [
      el("h3", {}, "Why"), el("pre", { id: "why", tabindex: 0, "aria-label": "the text of pvc-prebinder why" }, answer.text.trimEnd()),
      ...(steps.length ? [el("h3", {}, "Next")] : []),
      ...steps.map(([command, advice], place) => el("div", {},
        el("div", { class: "next" }, el("code", {}, command), el("button", { type: "button", class: "copy", "data-act": `copy-${place}`, onclick: (event) => copy(event.target, command) }, "Copy")),
        advice ? el("p", { class: "advice" }, advice) : null)),
      el("h3", {}, "In a terminal"),
      el("div", { class: "next" }, el("code", {}, this.#command()), el("button", { type: "button", class: "copy", "data-act": "copy-command", onclick: (event) => copy(event.target, this.#command()) }, "Copy")),
    ];
  }

  #command() {
    const [kind, ...rest] = this.#key.split("/");
    return kind === "pv" ? `pvc-prebinder why pv/${rest[0]}` : `pvc-prebinder why ${kind}/${rest[1]} -n ${rest[0]}`;
  }

  async #ask() {
    const key = this.#key;
    const [kind, ...rest] = key.split("/");
    if (kind === "node" || !key) return;
    this.#asking?.abort();
    this.#asking = new AbortController();
    this.#asked = performance.now();
    const [namespace, name] = kind === "pv" ? ["", rest[0]] : rest;
    let answer;
    try {
      answer = await this.connection.why(kind, namespace ?? "", name ?? "", this.#asking.signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      answer = { error: error.message };
    }
    if (key !== this.#key) return;
    const same = this.#answer && JSON.stringify(this.#answer) === JSON.stringify(answer);
    this.#answer = answer;
    if (!same) this.draw();
  }

  #facts(kind, name) {
    if (kind === "pv") return ofVolume(this.state.volumes.get(name));
    if (kind === "node") return ofNode(this.state.nodes.get(name), this.state);
    if (kind === "pod") return ofPod(this.state.pods.get(name), this.state.pending.get(`pod/${name}`));
    return ofClaim(name, this.state.pending.get(`pvc/${name}`), this.state.volumeOf(name), this.state.now());
  }
}

const to = (kind, key) => el("a", { href: link(`${kind}/${key}`), class: "mono" }, key);
const all = (kind, keys) => keys?.length ? el("span", {}, ...keys.flatMap((key, place) => (place ? [", ", to(kind, key)] : [to(kind, key)]))) : null;

function facts(rows) {
  return el("dl", {}, ...rows.filter(([, value]) => value).flatMap(([term, value]) => [el("dt", {}, term), el("dd", {}, value)]));
}

function ofVolume(volume) {
  if (!volume) return [["State", "gone"]];
  // Without a report on the volume, the text of the command says more: when its driver was probed last.
  return [
    ["State", el("span", {}, sample(volume.state, volume.unhealthy ? volume.health : ""), volume.state, volume.until ? ` until ${volume.until.slice(11, 19)} UTC` : "")],
    ["Health", healthOf(volume)], ["Claim", volume.claim ? to("pvc", volume.claim) : ""], ["Pods", all("pod", volume.pods)], ["Nodes", all("node", volume.nodes)],
    ["Zone", volume.zone], ["Class", volume.storageClass], ["Size", volume.size], ["Driver", volume.driver], ["Local", volume.local ? "accessible from this node only" : ""],
  ];
}

function ofNode(node, state) {
  if (!node) return [["State", "gone, or not readable"]];
  const volumes = state.volumesOn(node.name);
  const attached = node.limit ? `${node.attached ?? 0} of ${node.limit} (${node.driver})` : String(node.attached ?? 0);
  const list = el("ul", {}, ...volumes.slice(0, 300).map((volume) => el("li", {}, sample(volume.state, volume.unhealthy ? volume.health : ""), to("pv", volume.name), volume.claim ? el("span", { class: "soft" }, ` ${volume.claim}`) : null)));
  return [["State", node.state ?? "Ready"], ["Zone", node.zone], ["Attached", attached], ["Pods", String(node.pods ?? 0)], ["Volumes", volumes.length ? list : "none"]];
}

function ofPod(pod, row) {
  if (!pod) return [];
  return [["Phase", pod.phase], ["Node", pod.node ? to("node", pod.node) : ""], ["Claims", all("pvc", pod.claims)], ["Root cause", row?.code], ["Could go to", pod.node ? "" : zonesOf(row)]];
}

const zonesOf = (row) => (row?.everywhere ? "any zone" : row?.zones?.length ? row.zones.join(", ") : row?.code ? "no zone" : "");

function ofClaim(name, row, volume, now) {
  if (!row) return [["Volume", volume ? to("pv", volume.name) : ""], ["Pods", all("pod", volume?.pods)]];
  return [["Root cause", row.code], ["Could go to", zonesOf(row)], ["Class", row.storageClass], ["Size", row.size], ["Pod", row.pod ? to("pod", row.pod) : ""], ["Reserved", volume ? to("pv", volume.name) : ""], ["Waits", age(row.since, now)]];
}

async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    const range = document.createRange();
    range.selectNodeContents(button.previousElementSibling);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}
