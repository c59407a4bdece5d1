/** For comparing: a slider over the snapshots of a training, and curves that grow while it runs. */

import { ask } from "../api.js";
import { curves } from "../curves.js";
import { fill, h } from "../dom.js";
import { set, state } from "../state.js";

const EVERY = 3000; // ms between looks at a run that may be training

/** Snapshots and, last, the run as it ended. */
export function stepSlider(key, label) {
  const input = h("input", { type: "range", min: 0, step: 1, "aria-label": label, "data-key": key });
  const info = h("output", { class: "number" });
  let steps = [];
  input.addEventListener("input", () => set({ [key]: steps[Number(input.value)] ?? null }));
  const node = h("label", { class: "control slider" }, h("span", { text: label }), input, info);
  return {
    node,
    sync(given) {
      steps = given;
      node.hidden = !steps.length;
      input.max = String(steps.length);
      const at = steps.indexOf(Number(state()[key]));
      input.value = String(at < 0 ? steps.length : at);
      info.textContent = at < 0 ? "the end" : steps[at].toLocaleString("en");
    },
  };
}

/** The losses of these runs, asked for again and again while they are shown. */
export function watchCurves(place, runs, marks) {
  let found = {};
  let notes = [];
  /** A file that cannot be read is reported where its curves would be. */
  const info = (error) => (error.status === 400 ? { curves: {}, notes: [error.message] } : Promise.reject(error));
  async function ask_again() {
    if (document.hidden) return;
    try {
      const names = [...new Set(runs())];
      const all = await Promise.all(names.map((run) => ask("metrics", { run }).catch(info)));
      found = Object.fromEntries(names.map((run, n) => [run, all[n].curves]));
      notes = names.flatMap((run, n) => all[n].notes.map((note) => `${run}: ${note}`));
      draw();
    } catch {
      // the next check may find it again; the page says elsewhere when the server is gone
    }
  }
  function draw() {
    const names = Object.keys(found);
    const lines = {};
    for (const run of names) {
      const of = names.length > 1 ? ` ${run.slice(0, 10)}` : "";
      if (found[run].loss) lines[`training${of}`] = found[run].loss;
      if (found[run].valid_nll) lines[`validation${of}`] = found[run].valid_nll;
    }
    if (!Object.keys(lines).length && !notes.length) return fill(place);
    const title = h("h2", {}, "How it was learned", h("span", { class: "muted", text: " loss by step, read again every few seconds" }));
    fill(place, title, ...notes.map((text) => h("p", { class: "muted note", text })), curves(lines, { wide: Math.max(260, place.clientWidth), tall: 170, x: "steps", log: true, marks: marks().filter(Number.isFinite) }));
  }
  const timer = setInterval(ask_again, EVERY);
  ask_again();
  return { draw, close: () => clearInterval(timer) };
}
