// Elements from plain values. Text from the cluster only ever becomes a text node or an attribute's value, never markup.

export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

export const byId = (id) => document.getElementById(id);

export const number = new Intl.NumberFormat("en");

export const count = (amount, word, many = `${word}s`) => `${number.format(amount)} ${amount === 1 ? word : many}`;

// How long ago, as the command says it: 14m, 3h, 2d.
export function age(since, now) {
  const seconds = Math.max(0, Math.floor((now - Date.parse(since)) / 1000));
  if (!since || Number.isNaN(seconds)) return "";
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

// The address of an object on this page: `pvc/shop/data` and `#/pvc/shop/data`.
export const link = (key) => `#/${key.split("/").map(encodeURIComponent).join("/")}`;

export function routed(hash) {
  try {
    const parts = hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
    return parts.length >= 2 ? parts.join("/") : "";
  } catch {
    return "";
  }
}
