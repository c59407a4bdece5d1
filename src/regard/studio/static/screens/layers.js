/** Layers: what each layer would say already, and three ways to explain it, held to account by taking words away. */

import { colour, onColour } from "../colour.js";
import { panel, toggle } from "../controls.js";
import { curves } from "../curves.js";
import { fill, h, num, percent, piece, say } from "../dom.js";
import { matrix } from "../matrix.js";
import { flag, number, set, state } from "../state.js";

export const layers = { id: "layers", title: "Layers", description: "logit lens, rollout, gradients", mount };

const EXPLAINED = [
  ["rollout", "Rollout", "attention multiplied through the layers, the stream counted half", "places", "words", "shares", "weights"],
  ["gradient", "Gradient × input", "how the log-probability would move with each word", "predictions", "tokens", "values", "signed"],
  ["integrated", "Integrated gradients", "the same, along the way from no words to these", "predictions", "tokens", "values", "signed"],
];

function mount(root) {
  const lens = h("section", { class: "card lens" });
  const controls = panel(toggle("both", "also what was written before", "columns of both sides"));
  const boxes = EXPLAINED.map(([key, title, description]) => {
    const cells = matrix({ pick: (row) => set({ q: row }), hover: () => {} });
    const note = h("span", { class: "muted" });
    return { key, cells, note, node: h("section", { class: "card" }, h("h2", {}, title, h("span", { class: "muted", text: ` ${description}` })), cells.node, h("div", { class: "under" }, cells.foot, note)) };
  });
  const test = h("section", { class: "card" });
  root.append(lens, h("div", { class: "strip" }, h("h2", { text: "What the words did, by three explanations" }), controls.node), h("div", { class: "three" }, ...boxes.map((box) => box.node)), test);
  let now = null;

  async function update({ pass }, current) {
    now = { pass, found: {} };
    controls.sync();
    await part("logits", lens, (found) => fill(lens, ...reading(found, number("q", -1))), current);
    if (!current()) return;
    await Promise.all(boxes.map((box, n) => part(box.key, box.note, (found) => drawBox(box, found, EXPLAINED[n]), current)));
    if (!current()) return;
    await part("deletion", test, (found) => fill(test, ...verdict(found, test.clientWidth - 30)), current);
  }

  /** Each part stands or is refused by itself: a classifier has no words to read layers as, yet its gradients are there. */
  async function part(show, place, draw, current) {
    try {
      const found = await now.pass.ask("explain", { show });
      if (!current()) return;
      now.found[show] = found;
      draw(found);
    } catch (error) {
      if (![400, 422].includes(error.status) || !current()) throw error;
      fill(place, h("p", { class: "muted", text: error.message }));
    }
  }

  function drawBox(box, found, [, , , down, across, values, kind]) {
    const kept = found.stacks.map((stack, n) => (flag("both") || stack === found.stacks[0] ? n : -1)).filter((n) => n >= 0);
    const label = (text, n) => ({ text, from: [n], special: false });
    const shown = { rows: found[down].map(label), columns: kept.map((n) => label(found[across][n], n)), values: Float32Array.from(found[values].flatMap((row) => kept.map((n) => row[n]))), notes: [] };
    box.cells.draw(shown, { row: state().q === undefined ? null : Math.min(number("q", 0), shown.rows.length - 1), column: null }, { wide: box.node.clientWidth - 30, tall: 300, kind });
    box.note.textContent = found.missing ? `sums miss at most ${num(Math.max(...found.missing.map(Math.abs)))} nats` : kind === "signed" ? "blue for, orange against" : "weight is not cause: the test below asks the model";
  }

  const move = (by) => set({ q: Math.max(0, number("q", by > 0 ? -1 : 1) + by) });
  return {
    update,
    keys: () => [
      { key: "ArrowRight", shown: "→", description: "next position", action: () => move(1) },
      { key: "ArrowLeft", shown: "←", description: "position before", action: () => move(-1) },
      { key: "b", description: "columns of both sides", action: () => set({ both: flag("both") ? null : 1 }) },
      { key: "Backspace", shown: "⌫", description: "no position", action: () => set({ q: null }) },
    ],
    data: () => now.found,
  };
}

/** Layers from the last down to the embedding; shade is the probability of what stands there. */
function reading(found, at) {
  const names = found.choices.map((_, n) => (n ? `layer ${n}` : "embedding"));
  const head = h("tr", {}, h("th", { text: "reads" }), ...found.tokens.map((token, n) => h("th", { class: n === at ? "at" : "", text: piece(token) })));
  const rows = found.choices.map((choices, layer) =>
    h("tr", {}, h("th", { text: names[layer] }), ...choices.map((choice, n) => {
      const p = found.chances[layer][n];
      const cell = h("td", { class: `${n === at ? "at" : ""}${layer === found.decided[n] ? " decided" : ""}`, title: `${names[layer]}, ${n}: ${choice} ${percent(p)}; what the last layer says has ${percent(found.final[layer][n])}`, onclick: () => set({ q: n }), text: piece(choice) });
      cell.style.background = colour(p);
      cell.style.color = onColour(p);
      return cell;
    })),
  );
  if (at >= 0 && at < found.tokens.length) say(names.map((name, layer) => `${name}: ${found.choices[layer][at]} ${percent(found.chances[layer][at])}`).join("; "));
  return [h("h2", {}, "Logit lens", h("span", { class: "muted", text: " what the head would say if it read this layer; shade is how surely; underlined where it is decided for good" })), h("div", { class: "lens-box" }, h("table", { class: "lens-table" }, head, ...rows.reverse()))];
}

/** Which explanation predicts the model: the one whose first words, taken away, cost most. */
function verdict(found, wide) {
  const [mean, deviation] = found.chance;
  const order = Object.keys(found.areas).sort((a, b) => found.areas[b] - found.areas[a]);
  const sure = found.areas[found.best] - mean > 2 * deviation;
  const lines = Object.fromEntries(order.map((name) => [name, found.curves[name].map((loss, n) => [found.shares[n], loss])]));
  const rows = order.map((name) => h("tr", { class: name === found.best ? "chosen" : "" }, h("td", { text: name }), h("td", { class: "number", text: num(found.areas[name]) }), h("td", { class: "number muted", text: name === "random order" ? "" : `${num((found.areas[name] - mean) / (deviation || 1), 1)} σ` })));
  const info = sure ? `${found.best} predicts this model best: taking its first words away costs most.` : "No explanation does clearly better than words taken at random.";
  return [h("h2", {}, "Deletion test", h("span", { class: "muted", text: " words are taken away in the order of each explanation; the loss that follows" })), h("p", { id: "verdict", class: "says small", text: info }), h("div", { class: "deletion" }, curves(lines, { wide: Math.max(320, wide - 340), tall: 210, x: "share of words gone" }), h("table", { class: "numbers" }, h("tr", {}, h("td", { class: "muted", text: "order" }), h("td", { class: "number muted", text: "mean more loss" }), h("td", { class: "number muted", text: "above chance" })), ...rows))];
}
