/** Words: one word in several sentences, layer by layer; and the vocabulary as a space, with neighbours, analogies and positions. */

import { ask, numbers } from "../api.js";
import { kind } from "../colour.js";
import { curves } from "../curves.js";
import { fill, h, num, piece, s } from "../dom.js";
import { largest, paint, sized } from "../heat.js";
import { number, set, state } from "../state.js";
import { usesView } from "../uses.js";

export const words = { id: "words", title: "Words", description: "meanings by layer, neighbours", mount, free: true };

const EXAMPLES = {
  translation: ["it", "the animal did not cross the street because it was too tired\nthe animal did not cross the street because it was too wide\nthe cat did not see the house because it was too small"],
  other: ["bank", "he sat on the bank of the river\nshe put the money in the bank\nthe bank raised its rates\nthey fished from the muddy bank"],
};

function mount(root) {
  const word = h("input", { type: "text", "aria-label": "Word", size: 12, id: "word" });
  const sentences = h("textarea", { rows: 5, "aria-label": "Sentences, one a line", class: "sentences", spellcheck: "false", id: "sentences" });
  const near = h("input", { type: "text", "aria-label": "Neighbours of", size: 12, id: "near" });
  const sum = ["minus", "base", "plus"].map((name) => h("input", { type: "text", size: 8, "aria-label": name, id: `analogy-${name}` }));
  const view = usesView();
  const uses = h("section", { class: "card" });
  const space = h("section", { class: "card" });
  const answers = h("div", { class: "near-box" });
  const places = h("div", {});
  root.append(
    h("div", { class: "words-main" },
      h("section", { class: "card ask" }, h("h2", { text: "A word in several sentences" }), word, sentences, h("p", { class: "muted", text: "one sentence a line" }), h("h2", { text: "Neighbours" }), near, h("h2", { text: "Analogy" }), h("p", { class: "muted", text: "first is to second as third is to …" }), h("div", { class: "analogy" }, ...sum), answers),
      h("div", { class: "column" }, uses, space.appendChild(places) && space)),
  );
  const enter = (field, change) => field.addEventListener("change", () => set(change(field.value)));
  enter(word, (value) => ({ word: value.trim() }));
  enter(sentences, (value) => ({ sents: value.trim() }));
  enter(near, (value) => ({ near: value.trim() }));
  sum.forEach((field) => enter(field, () => ({ ana: sum.every((one) => one.value.trim()) ? sum.map((one) => one.value.trim()).join("\n") : null })));
  let now = {};

  async function update({ card }, current) {
    const [defaultWord, defaultSentences] = EXAMPLES[card.task] ?? EXAMPLES.other;
    const asked = { word: state().word ?? defaultWord, sentences: (state().sents ?? defaultSentences).split("\n").filter((one) => one.trim()) };
    const show = (field, value) => document.activeElement !== field && (field.value = value);
    show(word, asked.word);
    show(sentences, asked.sentences.join("\n"));
    show(near, state().near ?? asked.word);
    (state().ana?.split("\n") ?? ["", "", ""]).forEach((value, n) => show(sum[n], value));
    now = {};
    await Promise.all([
      part(uses, () => ask("uses", {}, { run: card.name, ...asked }), (found) => drawUses(found), current, "uses"),
      part(answers, () => vocabulary(card.name, state().near ?? asked.word), (found) => fill(answers, ...found.map(list)), current, "near"),
      part(places, () => numbers("positions", { run: card.name }), (found) => drawPlaces(found), current, "positions"),
    ]);
  }

  async function part(place, question, draw, current, name) {
    try {
      const found = await question();
      if (!current()) return;
      now[name] = found;
      draw(found);
    } catch (error) {
      if (![400, 422].includes(error.status) || !current()) throw error;
      fill(place, h("p", { class: "muted", text: error.message }));
    }
  }

  async function vocabulary(run, given) {
    const found = await ask("near", { run, word: given });
    const lists = [{ title: `Near ${piece(found.word)}`, rows: found.near }];
    if (state().ana) {
      const [minus, base, plus] = state().ana.split("\n");
      const { near: answer, typed } = await ask("analogy", {}, { run, minus, base, plus });
      lists.unshift({ title: `${base} − ${minus} + ${plus}`, rows: answer.slice(0, 6), note: `the words typed are left out; they would rank ${typed.map((one) => `${piece(one.token)} ${one.rank}`).join(", ")}` });
    }
    return lists;
  }

  function drawUses(found) {
    const at = Math.min(found.layers.length - 1, number("layer", found.layers.length - 1));
    fill(uses, h("h2", { text: `“${found.word}” in ${found.uses.length} places` }), view.node,
      h("h2", {}, "As a map", h("span", { class: "muted", text: " the two directions in which its vectors differ most; near ones are joined" })), scatter(found.map[at], found.distances[at]),
      ...found.notes.map((note) => h("p", { class: "muted", text: note })));
    view.draw(found);
  }

  function drawPlaces({ shape, data }) {
    const canvas = h("canvas", { role: "img", "aria-label": "cosine between positions", id: "positions" });
    const size = 236;
    paint(sized(canvas, size, size), data, { rows: shape[0], columns: shape[1], wide: size, tall: size, most: largest(data, 1e-6), kind: "signed" });
    const byDistance = Array.from({ length: shape[0] }, (_, d) => [d, Array.from({ length: shape[0] - d }, (_, n) => data[n * shape[1] + n + d]).reduce((a, b) => a + b, 0) / (shape[0] - d)]);
    fill(places, h("h2", {}, "Positions", h("span", { class: "muted", text: ` how alike the vectors of the first ${shape[0]} positions are (cosine), and the mean by distance` })), h("div", { class: "uses" }, canvas, curves({ cosine: byDistance }, { wide: Math.max(300, space.clientWidth - 290), tall: 220, x: "tokens apart" })));
  }

  return {
    update,
    keys: () => [
      ...view.keys,
      { key: "w", description: "type a word", action: () => word.select() },
      { key: "n", description: "type a word for its neighbours", action: () => near.select() },
    ],
    data: () => ({ uses: now.uses, near: now.near, positions: now.positions && { shape: now.positions.shape, cosine: Array.from(now.positions.data) } }),
  };
}

/** Each use a dot; near ones are joined, the nearer the stronger. */
function scatter(points, distances) {
  const size = 300;
  const at = ([x, y]) => [size / 2 + x * (size / 2 - 26), size / 2 - y * (size / 2 - 26)];
  const most = Math.max(1e-9, ...distances.flat());
  const links = points.flatMap((a, i) => points.slice(i + 1).map((b, j) => ({ from: at(a), to: at(b), near: 1 - distances[i][i + 1 + j] / most })));
  return s("svg", { width: size, height: size, class: "scatter", role: "img", "aria-label": "uses of the word, as dots" },
    s("rect", { x: 0.5, y: 0.5, width: size - 1, height: size - 1, rx: 8, class: "ground" }),
    ...links.map(({ from, to, near }) => s("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], class: "rule", "stroke-width": 0.5 + 3 * near })),
    ...points.map((point, n) => s("circle", { cx: at(point)[0], cy: at(point)[1], r: 10, fill: kind(n) })),
    ...points.map((point, n) => s("text", { x: at(point)[0], y: at(point)[1] + 0.5, "text-anchor": "middle", "dominant-baseline": "central", "font-size": 11, class: "within", fill: "#ffffff", text: n + 1 })));
}

function list({ title, rows, note }) {
  return h("div", {}, h("h2", { text: title }), h("table", { class: "numbers" }, ...rows.map((one) => h("tr", {}, h("td", { text: piece(one.token) }), h("td", { class: "number", text: num(one.cosine) })))), note && h("p", { class: "muted", text: note }));
}
