/** One word in several sentences: the sentences, how alike its vectors are in a layer, and the distances of pairs by layer. */

import { fill, h, s, say } from "./dom.js";
import { legend, paint, sized } from "./heat.js";
import { number, set } from "./state.js";

const [WIDE, HIGH, LEFT, RIGHT, TOP, BOTTOM] = [540, 300, 40, 140, 10, 40];

/** Distances by layer, of pairs above the diagonal, as 16-bit fractions of 2. */
function distancesOf({ uses, pairs }) {
  const bytes = Uint8Array.from(atob(pairs), (character) => character.charCodeAt(0));
  const steps = new Uint16Array(bytes.buffer);
  const count = uses.length;
  const place = (a, b) => (a > b ? place(b, a) : a * count - (a * (a + 1)) / 2 + b - a - 1);
  return { place, of: (layer, a, b) => (a === b ? 0 : (2 * steps[(layer * count * (count - 1)) / 2 + place(a, b)]) / 65535) };
}

export function usesView() {
  const caption = h("p", { class: "muted", id: "caption", role: "status" });
  const curves = s("svg", { class: "pair-curves", role: "img", "aria-label": "Distance between uses, by layer", viewBox: `0 0 ${WIDE} ${HIGH}` });
  const named = h("output", {});
  const slider = h("input", { type: "range", min: 0, step: 1, "aria-label": "Layer", "data-key": "layer" });
  const detail = h("div", { class: "pair-detail", "aria-live": "polite" });
  const canvas = h("canvas", { class: "pair-matrix", role: "img" });
  const scale = h("canvas", { "aria-hidden": "true" });
  const [least, lines] = [h("span", { class: "number" }), h("div", { class: "use-lines" })];
  const node = h("div", { class: "uses-view" }, caption,
    h("div", { class: "uses-columns" },
      h("section", { class: "card" }, h("h2", { text: "Distance between uses, by layer" }), curves, h("label", { class: "control slider" }, h("span", { text: "matrix of" }), slider, named), detail),
      h("section", { class: "card" }, h("h2", { text: "Cosine similarity of the uses" }), h("div", { class: "board" }, lines, canvas), h("div", { class: "legend" }, least, scale, h("span", { text: "1" })))));
  let now = null, hovered = null, pinned = null;
  const followed = () => hovered ?? pinned;
  const same = (one, other) => one && other && one.a === other.a && one.b === other.b;
  const follow = (spot) => {
    if (same(hovered, spot) || hovered === spot) return;
    hovered = spot;
    redraw();
  };
  const pin = (spot) => {
    pinned = same(pinned, spot) ? null : spot;
    redraw();
  };
  const layerNow = () => Math.max(0, Math.min(now.found.layers.length - 1, number("layer", now.found.layer ?? now.found.layers.length - 1)));
  const layerName = (layer) => (layer === 0 ? "the static embedding" : `layer ${now.found.layers[layer]}`);
  const choose = (layer) => set({ layer: Math.max(0, Math.min(now.found.layers.length - 1, layer)) });
  slider.addEventListener("input", () => choose(Number(slider.value)));
  curves.addEventListener("click", (event) => {
    const box = curves.getBoundingClientRect();
    const across = ((event.clientX - box.left) / box.width) * WIDE;
    choose(Math.round(((across - LEFT) / (WIDE - LEFT - RIGHT)) * (now.found.layers.length - 1)));
  });
  const cellUnder = (event) => {
    const box = canvas.getBoundingClientRect();
    const cell = (offset, size) => Math.min(now.found.uses.length - 1, Math.max(0, Math.floor((offset / size) * now.found.uses.length)));
    return { a: cell(event.clientY - box.top, box.height), b: cell(event.clientX - box.left, box.width) };
  };
  canvas.addEventListener("pointermove", (event) => follow(cellUnder(event)));
  canvas.addEventListener("pointerleave", () => follow(null));
  canvas.addEventListener("click", (event) => pin(cellUnder(event)));

  /** Draw what `/api/uses` says, or the data of a page. */
  function draw(found) {
    if (now?.found !== found) {
      [hovered, pinned] = [null, null];
      now = { found, distances: distancesOf(found), pitch: Math.max(15, Math.min(28, Math.floor(700 / found.uses.length))) };
      slider.max = String(found.layers.length - 1);
      fill(lines, ...found.uses.map(row));
    }
    redraw();
    say(caption.textContent);
  }
  function row(use, n) {
    const spot = { a: n, b: null };
    const word = h("b", { text: use.word });
    word.style.color = use.hue;
    const made = h("div", { class: "use", tabindex: 0, title: use.sense, onpointerenter: () => follow(spot), onpointerleave: () => follow(null), onfocus: () => follow(spot), onblur: () => follow(null), onclick: () => pin(spot) }, h("span", { class: "number", text: use.number }), h("span", { class: "before", text: use.before }), word, h("span", { class: "after", text: use.after }));
    made.style.height = made.style.lineHeight = `${now.pitch}px`;
    return made;
  }
  function redraw() {
    const { found } = now, layer = layerNow(), spot = followed();
    const mean = found.groups.map((group) => `${group.name} ${group.mean[layer].toFixed(3)}`).join(" · ");
    const others = found.others[layer] === null ? "" : ` · different words ${found.others[layer].toFixed(3)}`;
    const score = found.score === null ? "" : ` · one sense is nearer in ${(100 * found.score[layer]).toFixed(0)}% of comparisons`;
    caption.textContent = `${found.model} · ${layerName(layer)}: ${mean}${others}${score}`;
    named.textContent = layerName(layer);
    slider.value = String(layer);
    [...lines.children].forEach((one, use) => {
      one.classList.toggle("on", spot !== null && (spot.a === use || spot.b === use));
      one.classList.toggle("pinned", pinned !== null && (pinned.a === use || pinned.b === use));
    });
    drawCurves(curves, now, layer, spot);
    drawMatrix(layer);
    fill(detail, ...detailOf(layer, spot));
  }
  function drawMatrix(layer) {
    const count = now.found.uses.length;
    const apart = Float32Array.from({ length: count * count }, (_, n) => now.distances.of(layer, Math.floor(n / count), n % count));
    const far = apart.reduce((most, value) => Math.max(most, value), 1e-6);
    const size = now.pitch * count;
    paint(sized(canvas, size, size), apart.map((value) => 1 - value / far), { rows: count, columns: count, cell: now.pitch });
    canvas.setAttribute("aria-label", `Similarity of ${count} uses in ${layerName(layer)}`);
    least.textContent = (1 - far).toFixed(2);
    legend(scale, 1);
  }
  function detailOf(layer, spot) {
    const use = (n) => {
      const one = now.found.uses[n];
      const word = h("b", { text: one.word });
      word.style.color = one.hue;
      return h("p", {}, h("span", { class: "number muted", text: `${one.number}  ` }), one.before, word, one.after);
    };
    if (spot === null) return [h("p", { class: "muted", text: "Point at a cell of the matrix or at a sentence." })];
    const apart = (a, b) => now.distances.of(layer, a, b);
    if (spot.b !== null) return [h("p", { text: `Distance ${apart(spot.a, spot.b).toFixed(3)} in ${layerName(layer)}` }), ...[...new Set([spot.a, spot.b])].map(use)];
    const ranked = now.found.uses.map((_, n) => n).filter((n) => n !== spot.a).sort((one, other) => apart(spot.a, one) - apart(spot.a, other));
    return [use(spot.a), ...[["nearest", ranked[0]], ["farthest", ranked.at(-1)]].flatMap(([name, n]) => [h("p", { class: "muted", text: `${name}, ${apart(spot.a, n).toFixed(3)}:` }), use(n)])];
  }
  const shift = (by) => now && choose(layerNow() + by);
  return {
    node,
    draw,
    unpin: () => {
      [hovered, pinned] = [null, null];
      redraw();
    },
    keys: [
      { key: "ArrowRight", shown: "→", description: "next layer", action: () => shift(1) },
      { key: "ArrowLeft", shown: "←", description: "layer before", action: () => shift(-1) },
    ],
  };
}

function drawCurves(svg, { found, distances }, layer, spot) {
  const { layers, uses, groups } = found;
  const [last, count] = [layers.length - 1, uses.length];
  const over = (a, b) => layers.map((_, n) => distances.of(n, a, b));
  const every = found.many ? [] : uses.flatMap((_, a) => uses.slice(a + 1).map((__, n) => ({ a, b: a + 1 + n })));
  const most = Math.max(1e-9, ...groups.flatMap((group) => (found.many ? group.high : group.mean)), ...every.flatMap(({ a, b }) => over(a, b)));
  const x = (n) => LEFT + ((WIDE - LEFT - RIGHT) * n) / last;
  const y = (value) => HIGH - BOTTOM - ((HIGH - TOP - BOTTOM) * value) / most;
  const path = (values) => "M" + values.map((value, n) => `${x(n).toFixed(1)} ${y(value).toFixed(1)}`).join("L");
  const hue = (a, b) => (groups.length === (count * (count - 1)) / 2 && found.score === null ? groups[distances.place(a, b)].colour : groups.length === 1 || uses[a].sense !== uses[b].sense ? groups[0].colour : groups[1].colour);
  const step = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5].find((size) => most / size <= 5) ?? 0.5;
  const ticks = Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, n) => n * step);
  const apart = Math.ceil((28 * last) / (WIDE - LEFT - RIGHT));
  const shownName = (n) => n === 0 || n === last || (!(apart > 1 && (n === 1 || n === last - 1)) && (last - n) % apart === 0);
  let below = -Infinity;
  const ends = [...groups].sort((one, other) => other.mean[last] - one.mean[last]).flatMap(({ name, colour, mean, low, high }) => {
    const back = high.map((value, n) => `L${x(n)} ${y(value)}`).reverse().join("");
    below = Math.max(below + 15, y(mean[last]) + 4);
    return [found.many && s("path", { class: "spread", d: `${path(low)}${back}Z`, fill: colour }), s("path", { class: "mean", d: path(mean), stroke: colour }), s("text", { class: "name", x: WIDE - RIGHT + 8, y: below, fill: colour, text: `${name}  ${mean[last].toFixed(2)}` })];
  });
  const followed = spot === null ? [] : spot.b === null ? uses.map((_, n) => n).filter((n) => n !== spot.a) : [spot.b];
  svg.classList.toggle("following", spot !== null);
  fill(svg,
    ...ticks.flatMap((tick) => [s("line", { class: "rule", x1: LEFT, x2: WIDE - RIGHT, y1: y(tick), y2: y(tick) }), s("text", { class: "small", x: LEFT - 7, y: y(tick) + 4, "text-anchor": "end", text: String(Number(tick.toPrecision(6))) })]),
    ...layers.map((name, n) => shownName(n) && s("text", { class: "small", x: x(n), y: HIGH - BOTTOM + 20, "text-anchor": "middle", text: name })),
    s("text", { class: "small", x: (LEFT + WIDE - RIGHT) / 2, y: HIGH - 4, "text-anchor": "middle", text: "layer" }),
    s("line", { class: "mark", x1: x(layer), x2: x(layer), y1: TOP, y2: HIGH - BOTTOM }),
    ...(groups.length < every.length ? every.map(({ a, b }) => s("path", { class: "pair", d: path(over(a, b)), stroke: hue(a, b) })) : []),
    ...ends,
    ...followed.map((b) => s("path", { class: "on", d: path(over(spot.a, b)) })));
}
