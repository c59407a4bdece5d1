/** Light, dark, or as the system says; remembered on this machine. */

const KEY = "regard-theme";
const listeners = new Set();
const system = matchMedia("(prefers-color-scheme: dark)");

function kept() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage may be switched off; the system's choice stands
  }
}

const now = () => kept() ?? (system.matches ? "dark" : "light");

function apply() {
  document.documentElement.dataset.theme = now();
  for (const listener of listeners) listener();
}

export function turn() {
  const next = now() === "dark" ? "light" : "dark";
  try {
    localStorage.setItem(KEY, next);
  } catch {
    return;
  }
  apply();
}

export const onTheme = (listener) => listeners.add(listener);

system.addEventListener("change", apply);
apply();
