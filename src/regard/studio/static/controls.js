/** Sliders, switches and choices that are bound to the state: they show it, and change it. */

import { h } from "./dom.js";
import { set, state } from "./state.js";

/** @typedef {{node: HTMLElement, sync: () => void}} Control */

/** A slider. @returns {Control} */
export function slider(key, label, { least, most, by, otherwise, shown = (v) => String(v) }) {
  const info = h("output", { class: "number" });
  const input = h("input", { type: "range", min: least, max: most, step: by, "aria-label": label, "data-key": key });
  input.addEventListener("input", () => set({ [key]: Number(input.value) === otherwise ? null : input.value }));
  const sync = () => {
    input.value = state()[key] ?? otherwise;
    info.textContent = shown(Number(input.value));
  };
  return { node: h("label", { class: "control slider" }, h("span", { text: label }), input, info), sync };
}

/** A switch. @returns {Control} */
export function toggle(key, label, title = "") {
  const input = h("input", { type: "checkbox", "data-key": key });
  input.addEventListener("change", () => set({ [key]: input.checked ? 1 : null }));
  const sync = () => {
    input.checked = state()[key] === "1";
  };
  return { node: h("label", { class: "control toggle", title }, input, h("span", { text: label })), sync };
}

/**
 * One of several, side by side.
 * @param {() => [string, string][]} options  value and label
 * @param {() => string} otherwise  what stands where nothing is said; by default the first
 * @returns {Control}
 */
export function choice(key, label, options, otherwise = () => options()[0]?.[0]) {
  const box = h("div", { class: "segments", role: "radiogroup", "aria-label": label });
  let made = "";
  const sync = () => {
    const now = options();
    const chosen = state()[key] ?? otherwise();
    const wanted = JSON.stringify(now);
    if (wanted !== made) {
      made = wanted;
      box.replaceChildren(
        ...now.map(([value, text]) =>
          h("button", { type: "button", role: "radio", "data-value": value, text, onclick: () => set({ [key]: value === otherwise() ? null : value }) }),
        ),
      );
    }
    for (const button of box.children) button.setAttribute("aria-checked", String(button.dataset.value === chosen));
  };
  return { node: h("div", { class: "control" }, label ? h("span", { text: label }) : null, box), sync };
}

/** One of many, in a list. @returns {Control} */
export function select(key, label, options, otherwise) {
  const input = h("select", { "aria-label": label, "data-key": key });
  let made = "";
  input.addEventListener("change", () => set({ [key]: input.value }));
  const sync = () => {
    const now = options();
    if (JSON.stringify(now) !== made) {
      made = JSON.stringify(now);
      input.replaceChildren(...now.map(([value, text]) => h("option", { value, text })));
    }
    input.value = state()[key] ?? otherwise();
  };
  return { node: h("label", { class: "control" }, h("span", { text: label }), input), sync };
}

/** A row of them, and one call that brings all up to date. */
export function panel(...controls) {
  const node = h("div", { class: "controls" }, ...controls.map((control) => control.node));
  return { node, sync: () => controls.forEach((control) => control.sync()) };
}
