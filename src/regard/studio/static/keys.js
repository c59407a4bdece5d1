/** Keyboard shortcuts: pressed anywhere but in a field, listed in one overlay that ? opens. */

import { h } from "./dom.js";

/** @typedef {{key: string, shown?: string, description: string, action: (event: KeyboardEvent) => void}} Shortcut */

/** @type {Shortcut[]} */
const everywhere = [];
/** @type {() => Shortcut[]} */
let here = () => [];

export const bind = (...shortcuts) => everywhere.push(...shortcuts);

/** What the screen that is open adds. */
export function screenKeys(given) {
  here = given;
}

const FIELDS = new Set(["TEXTAREA", "SELECT"]);
const SLIDES = /^(Arrow|Home|End|Page| |Enter)/;

/** In a text field keys are letters; on a slider, a switch or a button those that work it are its own. */
function taken(event) {
  const node = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey) return true;
  if (FIELDS.has(node.tagName)) return true;
  if (node.tagName === "INPUT") return !["range", "checkbox", "radio"].includes(node.type) || SLIDES.test(event.key);
  return node.tagName === "BUTTON" && (event.key === " " || event.key === "Enter");
}

window.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && event.target instanceof HTMLElement && event.target !== document.body && event.target.id !== "screen") {
    event.target.blur();
    document.getElementById("screen").focus();
    return;
  }
  if (document.querySelector("dialog[open]") || taken(event)) return;
  const found = [...here(), ...everywhere].find((one) => one.key === event.key);
  if (!found) return;
  event.preventDefault();
  found.action(event);
});

const rows = (shortcuts) =>
  shortcuts.map((one) => h("tr", {}, h("td", {}, h("kbd", { text: one.shown ?? one.key })), h("td", { text: one.description })));

/** The overlay, built each time it opens, since its keys depend on the screen. */
export function help(screen) {
  const own = here().filter((one) => one.description);
  const box = h(
    "dialog",
    { class: "help", "aria-label": "Keys" },
    h("div", { class: "columns" },
      h("section", {}, h("h2", { text: `On ${screen}` }), h("table", {}, ...rows(own))),
      h("section", {}, h("h2", { text: "Everywhere" }), h("table", {}, ...rows(everywhere.filter((one) => one.description)))),
    ),
    h("p", { class: "muted", text: "Tab goes from part to part, Esc leaves a field. The view is in the address: reload it, send it." }),
    h("form", { method: "dialog" }, h("button", { text: "Close", autofocus: true })),
  );
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}
