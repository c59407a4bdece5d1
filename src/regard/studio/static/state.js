/** The whole view is in the address, behind the #: it can be reloaded, bookmarked and sent. */

/** @typedef {Record<string, string>} State */

const listeners = new Set();
let current = read();

/** @returns {State} */
function read() {
  const [screen, rest = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const found = Object.fromEntries(new URLSearchParams(rest));
  return { ...found, screen: screen || "run" };
}

/** @param {State} state */
export function address(state) {
  const { screen, ...rest } = state;
  const kept = Object.entries(rest).filter(([, value]) => value !== "" && value !== undefined && value !== null);
  return `#/${screen}?${new URLSearchParams(kept)}`;
}

export const state = () => current;

/** A number of the state, or what stands for it. */
export function number(key, otherwise) {
  const value = Number.parseFloat(current[key]);
  return Number.isFinite(value) ? value : otherwise;
}

export const flag = (key) => current[key] === "1";

/**
 * Change some of the state. What a person would want to go back over is a step of its history; sliding and typing are not.
 * @param {Record<string, string|number|null|undefined>} changes
 */
export function set(changes, { step = false } = {}) {
  const next = { ...current };
  for (const [key, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") delete next[key];
    else next[key] = String(value);
  }
  if (address(next) === address(current)) return;
  const before = current;
  current = next;
  if (step) history.pushState(null, "", address(next));
  else history.replaceState(null, "", address(next));
  tell(before);
}

export function onChange(listener) {
  listeners.add(listener);
}

function tell(before) {
  for (const listener of listeners) listener(current, before);
}

window.addEventListener("popstate", () => {
  const before = current;
  current = read();
  tell(before);
});
