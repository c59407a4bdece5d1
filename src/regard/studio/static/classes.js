/** The answer about an image in large letters, beside its label; and every class with its probability. */

import { fill, h, percent } from "./dom.js";
import { set } from "./state.js";

export function classes(shelf) {
  const line = h("div", { class: "verdict" });
  const list = h("div", { class: "classes", role: "listbox", "aria-label": "Classes, likeliest first" });
  const node = h("section", { class: "card" }, h("h2", {}, "Classes", h("span", { class: "muted", text: " choose one to see what speaks for it" })), list);

  /** The classes of a step; `chosen` is the one whose relevance is shown. */
  function draw({ top, target, p }, chosen) {
    const said = shelf.said();
    const right = said === null ? null : said === top[0].choice;
    const note = said === null ? (shelf.label() ?? "") : right ? `✓ its label is ${said}` : `✗ its label is ${said}`;
    fill(line, h("p", { class: "says" }, h("b", { text: top[0].choice }), h("span", { class: "muted", text: ` ${percent(top[0].p)}` })), h("span", { id: "label", class: right === null ? "muted" : `pill ${right ? "good" : "bad"}`, text: note }), target !== top[0].choice && target !== null && h("span", { class: "muted", text: `scored on ${target}: ${percent(p)}` }));
    fill(list, ...top.map((one) => {
      const inner = h("i");
      inner.style.width = `${Math.max(1, 100 * one.p)}%`;
      return h("button", { type: "button", role: "option", "aria-selected": String(one.id === chosen), "data-choice": one.id, onclick: () => set({ view: "relevance", label: one.id }) }, h("span", { class: "name", text: one.choice }), h("span", { class: "bar" }, inner), h("span", { class: "number", text: percent(one.p) }));
    }));
  }

  /** How likely the image is to the model that draws such ones. */
  function bits({ nll, title }) {
    fill(line, h("p", { class: "says" }, h("b", { text: nll === null ? "–" : `${(nll / Math.LN2).toFixed(3)} bits` }), h("span", { class: "muted", text: " a colour of a pixel: the fewer, the likelier the image" })), h("span", { id: "label", class: "muted", text: shelf.label() ?? title }));
  }

  return { node, line, draw, bits };
}
