/** Compare: two runs, two moments of one training, or two texts; which heads changed most, and how. Curves follow a run that trains. */

import { ask, runPass } from "../api.js";
import { called, chosen, moving, notCause } from "../chosen.js";
import { colour, onColour } from "../colour.js";
import { panel, select } from "../controls.js";
import { curves } from "../curves.js";
import { fill, h, num, piece, say } from "../dom.js";
import { largest } from "../heat.js";
import { matrix } from "../matrix.js";
import { number, set, state } from "../state.js";
import { shownWeights } from "../weights.js";
import { stepSlider, watchCurves } from "./compare_parts.js";

export const compare = { id: "compare", title: "Compare", description: "two runs, steps or texts", mount, attends: true };

function mount(root) {
  let now = null;
  let latest = null;
  let runs = [];
  const runOf = select("brun", "with run", () => runs.map((name) => [name, name]), () => state().run);
  const controls = panel(runOf);
  const text = h("textarea", { rows: 1, class: "btext", "aria-label": "Other text", placeholder: "the same text, or another one", spellcheck: "false", id: "other-text" });
  text.addEventListener("change", () => set({ btext: text.value.replace(/\n/g, " ").trim() || null }));
  text.addEventListener("keydown", (event) => event.key === "Enter" && (event.preventDefault(), text.blur()));
  const [ours, theirs] = [stepSlider("step", "A at step"), stepSlider("bstep", "B at step")];
  const grid = h("div", { class: "switches" });
  const title = h("h2", {});
  const maps = ["A", "B", "B − A"].map((name) => {
    const cells = matrix({ pick: () => {}, hover: () => {} });
    return { cells, node: h("section", { class: "card" }, h("h2", { text: name }), cells.node, h("div", { class: "under" }, cells.foot)) };
  });
  const chart = h("div", {});
  root.append(
    h("div", { class: "strip" }, controls.node, text, ours.node, theirs.node),
    h("div", { class: "compare-main" }, h("section", { class: "card" }, h("h2", {}, "How differently each head attends", h("span", { class: "muted", text: " 0 the same, 1 all elsewhere" })), grid, chart), h("div", { class: "column" }, title, h("div", { class: "three" }, ...maps.map((map) => map.node)), notCause(() => now.pass))),
  );
  const watch = watchCurves(chart, () => [state().run, state().brun ?? state().run], () => [number("step", NaN), number("bstep", NaN)]);
  ask("runs").then((found) => {
    runs = found.map((run) => run.name);
    controls.sync();
  }, () => {});

  async function update({ pass, card }, current) {
    latest = pass;
    controls.sync();
    if (document.activeElement !== text) text.value = state().btext ?? "";
    const brun = state().brun ?? pass.asked.run;
    const theirCard = brun === card.name ? card : await ask("run", { run: brun }).catch(notYet);
    if (!theirCard) return;
    ours.sync(card.steps);
    theirs.sync(theirCard.steps);
    watch.draw();
    const other = await runPass(asked(pass, brun));
    const found = await pass.again(() => other.again(() => ask("compare", { id: pass.data.id, other: other.data.id })));
    if (!current()) return;
    now = { pass, other, found, at: chosen(pass) };
    fill(grid, ...rows(pass, found, now.at));
    await drawMaps(current);
  }

  /** A run that has just begun has curves, and no weights to draw. */
  function notYet(error) {
    if (error.status !== 400) throw error;
    now = { pass: latest, other: latest, found: { apart: {}, left_out: [], nll: [] }, at: chosen(latest) };
    fill(title, h("span", { class: "muted", text: error.message }));
    fill(grid);
    maps.forEach((map) => (map.node.hidden = true));
  }

  /** The other side: of the same text, it is scored on the same words, so that places can be compared. */
  function asked(pass, run) {
    const { text: own, target } = pass.asked;
    const info = pass.data.title.startsWith(`${own} → `) ? pass.data.title.slice(own.length + 3) : undefined;
    const aim = target ?? (state().btext ? undefined : info);
    return { run, text: state().btext ?? own, ...(aim ? { target: aim } : {}), ...(state().bstep ? { step: Number(state().bstep) } : {}) };
  }

  async function drawMaps(current) {
    const { pass, other, at, found } = now;
    const alike = found.apart[at.name] !== undefined;
    const [a, b] = await Promise.all([pass, other].map((one) => (one.attention(at.name) && at.number < one.attention(at.name).heads ? shownWeights(one, { ...one.attention(at.name), head: String(at.number), number: at.number }) : null)));
    if (!current()) return;
    const apart = alike ? `: ${num(found.apart[at.name][at.number])} apart` : ": other tokens, so no difference can be drawn";
    fill(title, `${called(at.name)}, head ${at.number}${apart}`, h("span", { class: "muted", text: `   loss ${num(found.nll[0])} in A, ${num(found.nll[1])} in B` }));
    const room = { wide: maps[0].node.clientWidth - 28, tall: Math.max(220, maps[0].node.parentElement.clientHeight - 80) };
    const most = Math.max(largest(a?.values ?? [], 1e-6), largest(b?.values ?? [], 1e-6));
    maps.forEach((map, n) => (map.node.hidden = n === 1 ? !b : n === 2 ? !alike || !b : false));
    const none = { row: null, column: null };
    maps[0].cells.draw(a, none, { ...room, most });
    if (b) maps[1].cells.draw(b, none, { ...room, most });
    if (alike && b) maps[2].cells.draw({ ...a, values: a.values.map((value, n) => b.values[n] - value), rows: a.rows.map((row, n) => ({ ...row, text: both(row.text, b.rows[n]?.text) })) }, none, { ...room, kind: "signed" });
    say(`${called(at.name)} head ${at.number}${apart}`);
  }
  const both = (one, other) => (other === undefined || one === other ? one : `${piece(one)}/${piece(other)}`);

  function strongest(by) {
    const all = Object.entries(now.found.apart).flatMap(([name, values]) => values.map((value, head) => ({ name, head, value }))).sort((x, y) => y.value - x.value);
    const index = all.findIndex((one) => one.name === now.at.name && one.head === now.at.number);
    const next = all[(index + by + all.length) % all.length];
    if (next) set({ at: next.name, head: next.head });
  }
  return {
    update,
    close: watch.close,
    keys: ({ pass }) => [
      { key: "ArrowDown", shown: "↓", description: "head that changed next less", action: () => strongest(1) },
      { key: "ArrowUp", shown: "↑", description: "head that changed next more", action: () => strongest(-1) },
      { key: "w", description: "type the other text", action: () => text.focus() },
      ...moving(pass),
    ],
    data: () => ({ a: now.pass.data.title, b: now.other.data.title, ...now.found }),
  };
}

function rows(pass, found, at) {
  const most = largest(Object.values(found.apart).flat(), 1e-6);
  return pass.data.attentions.map((one) => {
    const values = found.apart[one.name];
    const cells = values ? values.map((value, head) => cell(one, head, value, most, at)) : [h("span", { class: "muted", text: "other tokens" })];
    return h("div", { class: `switch-row${one.heads > 8 ? " many" : ""}` }, h("span", { class: "muted", text: called(one.name) }), ...cells);
  });
}

function cell(one, head, value, most, at) {
  const here = one.name === at.name && head === at.number;
  const button = h("button", { type: "button", class: `switch${here ? " here" : ""}`, "aria-label": `${called(one.name)} head ${head}, ${num(value)} apart`, onclick: () => set({ at: one.name, head }), text: value.toFixed(2) });
  button.style.background = colour(value / Math.max(most, 0.05));
  button.style.color = onColour(value / Math.max(most, 0.05));
  return button;
}
