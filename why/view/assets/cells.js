// Volumes as small squares: colour and shape by state and health, and a name for whoever does not see them.

import { el } from "./dom.js";

export const STATES = [
  ["Bound", "used by a claim"],
  ["Available", "free for any claim"],
  ["Reserved", "held for one claim"],
  ["Released", "its claim is gone, its data is not"],
  ["Quarantined", "kept from every claim"],
  ["Pending", "not available yet"],
  ["Failed", "could not be reclaimed"],
  ["Terminating", "being deleted"],
];

const classes = (volume) => `cell ${volume.state}${volume.unhealthy ? ` ${volume.health}` : ""}`;

// Health in words; the reason of a quarantine begins with the state.
export function healthOf(volume) {
  if (!volume.health) return "";
  if (!volume.reason || volume.reason.startsWith(volume.health)) return volume.reason ?? volume.health;
  return `${volume.health}: ${volume.reason}`;
}

export function described(volume) {
  const parts = [volume.name, volume.unhealthy ? healthOf(volume) : "", volume.state];
  if (volume.claim) parts.push(`claim ${volume.claim}`);
  parts.push(volume.size, volume.storageClass ? `class ${volume.storageClass}` : "");
  return parts.filter(Boolean).join(", ");
}

export function cell(volume) {
  const text = described(volume);
  return el("button", {
    type: "button", class: classes(volume), "data-volume": volume.name, "aria-label": text, title: text, tabindex: -1,
  });
}

// A sample beside text.
export const sample = (...names) => el("i", { class: `cell inline-cell ${names.join(" ")}`, "aria-hidden": "true" });

// The squares of a group: only its first is a tab stop, the arrow keys do the rest.
export function fill(group, volumes, most = Infinity) {
  const shown = volumes.slice(0, most).map(cell);
  group.replaceChildren(...shown);
  settle(group);
}

const visible = (group) => [...group.children].filter((square) => !square.hidden);

// Make the first square that is shown the tab stop of its group, unless one is already.
export function settle(group) {
  const squares = visible(group);
  if (squares.some((square) => square.tabIndex === 0)) return;
  for (const square of group.children) square.tabIndex = -1;
  if (squares.length) squares[0].tabIndex = 0;
}

export function onArrow(event) {
  const from = event.target.closest?.("button.cell");
  if (!from) return;
  const group = from.parentElement;
  const cells = visible(group);
  const place = cells.indexOf(from);
  const to = {
    ArrowRight: () => cells[place + 1], ArrowLeft: () => cells[place - 1],
    Home: () => cells[0], End: () => cells[cells.length - 1],
    ArrowDown: () => neighbour(group, 1), ArrowUp: () => neighbour(group, -1),
  }[event.key]?.();
  if (!to) return;
  event.preventDefault();
  from.tabIndex = -1;
  to.tabIndex = 0;
  to.focus();
}

function neighbour(group, step) {
  const groups = [...group.closest("main").querySelectorAll(".cells")];
  for (let place = groups.indexOf(group) + step; groups[place]; place += step) {
    groups[place].dispatchEvent(new CustomEvent("needed", { bubbles: true }));
    const squares = visible(groups[place]);
    if (squares.length) return squares.find((square) => square.tabIndex === 0) ?? squares[0];
  }
  return undefined;
}
