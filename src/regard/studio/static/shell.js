/** Around every screen: the list of screens at the left, the run and the text above. */

import { fill, h } from "./dom.js";
import { set, state } from "./state.js";

const PAUSE = 60; // ms after the last letter before the model is asked

/** @param {{id: string, title: string}[]} screens */
export function navigation(screens) {
  const list = document.getElementById("screens");
  const mark = h("div", { class: "brand" }, h("img", { src: "/static/icon.svg", alt: "", width: 22, height: 22 }), h("b", { text: "Regard" }), h("span", { text: "studio" }));
  const links = screens.map((one, n) =>
    h("button", { type: "button", class: "screen", "data-screen": one.id, title: one.description, onclick: () => set({ screen: one.id }, { step: true }) },
      h("kbd", { text: n + 1 }), h("span", { text: one.title })),
  );
  const foot = h("div", { class: "foot" });
  fill(list, mark, ...links, foot);
  return {
    sync() {
      for (const link of links) link.setAttribute("aria-current", link.dataset.screen === state().screen ? "page" : "false");
    },
    /** What the run is, below the screens. */
    tell(facts) {
      fill(foot, h("dl", {}, ...Object.entries(facts).flatMap(([name, value]) => [h("dt", { text: name }), h("dd", { text: value })])));
    },
  };
}

/** @param {string[]} runs @param {{help: () => void, save: () => void, turn: () => void}} handlers */
export function bar(runs, handlers) {
  const run = h("select", { "aria-label": "Run", id: "run" }, ...runs.map((name) => h("option", { value: name, text: name })));
  const text = h("textarea", { id: "text", rows: 1, spellcheck: "false", "aria-label": "Text", placeholder: "a text for the model" });
  const target = h("textarea", { id: "target", rows: 1, spellcheck: "false", "aria-label": "Scored on" });
  const reads = h("span", { text: "text" });
  const scored = h("span", { text: "scored on" });
  const wait = h("span", { class: "wait", "aria-hidden": "true" });
  run.addEventListener("change", () => set({ run: run.value, text: null, target: null, step: null, at: null, head: null, off: null, q: null, k: null, first: null, force: null, node: null, view: null, cell: null, label: null }, { step: true }));
  typed(text, (value) => set({ text: value, target: null, q: null, k: null, force: null, say: null }));
  typed(target, (value) => set({ target: value, q: null, k: null }));
  const buttons = [["e", "Export", handlers.save], ["t", "Theme", handlers.turn], ["?", "Keys", handlers.help]];
  fill(
    document.getElementById("bar"),
    run,
    h("label", { class: "field grow" }, reads, text),
    h("label", { class: "field" }, scored, target),
    wait,
    ...buttons.map(([key, label, onclick]) => h("button", { type: "button", class: "tool", id: `tool-${label.toLowerCase()}`, title: `${label} (${key})`, onclick }, h("kbd", { text: key }), h("span", { text: label }))),
  );
  return {
    sync(card) {
      run.value = state().run ?? runs[0];
      for (const [field, key] of [[text, "text"], [target, "target"]]) {
        if (document.activeElement !== field) field.value = state()[key] ?? "";
      }
      if (!card) return;
      reads.textContent = card.images ? "image" : card.series ? "window" : "text";
      scored.textContent = card.images?.kind === "questions" ? "question" : "scored on";
      target.placeholder = card.scored_on ?? "what the model says";
    },
    busy(yes) {
      wait.classList.toggle("on", yes);
    },
    focus: () => text.select(),
  };
}

/** Tell when typing rests, at once on Enter. */
function typed(field, then) {
  let timer = 0;
  const now = () => {
    clearTimeout(timer);
    then(field.value.replace(/\n/g, " "));
  };
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(now, PAUSE);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    now();
    field.blur();
  });
}
