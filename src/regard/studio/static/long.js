/** A long text: the whole head as pooled tiles, the tile around the mark exactly, and the marked row's strongest keys. */

import { css, fill, h, num, piece, s, say, weight } from "./dom.js";
import { largest, paint, sized } from "./heat.js";
import { number, set } from "./state.js";

const SIZE = 512; // tiles along the overview
const TILE = 48; // tokens along the exact part

export function longView() {
  const whole = h("canvas", { role: "img", id: "overview" });
  const tile = h("canvas", { role: "img", id: "tile" });
  const over = s("svg", { class: "over" });
  const info = h("p", { class: "muted" });
  const near = h("p", { class: "muted" });
  const row = h("div", { class: "ranked" });
  const node = h("div", { class: "long" }, h("section", { class: "card" }, h("h2", { text: "Overview" }), h("div", { class: "stack" }, whole, over), info), h("section", { class: "card" }, h("h2", { text: "Tile" }), tile, near), h("section", { class: "card" }, row));
  let now = null;

  const clamp = (n, most) => Math.min(most - 1, Math.max(0, n));
  const centre = () => ({ q: clamp(number("q", 0), now.at.queries), k: clamp(number("k", 0), now.at.keys) });
  const span = (middle, most) => {
    const first = Math.max(0, Math.min(middle - TILE / 2, most - TILE));
    return [first, Math.min(most, first + TILE)];
  };

  async function update(pass, at, current) {
    const head = at.head === "mean" || at.head === "max" ? "0" : at.head;
    const began = performance.now();
    const picture = await pass.numbers("overview", { name: at.name, head, size: SIZE });
    if (!current()) return;
    now = { pass, at, head, picture };
    const side = Math.min(node.clientHeight - 90 || 480, (node.clientWidth || 1100) * 0.42);
    const [tall, wide] = picture.shape;
    const scale = Math.max(0.2, side / Math.max(tall, wide));
    const most = largest(picture.data, 1);
    paint(sized(whole, wide * scale, tall * scale), picture.data, { rows: tall, columns: wide, wide: wide * scale, tall: tall * scale, most });
    whole.dataset.ms = String(Math.round(performance.now() - began));
    whole.setAttribute("aria-label", `${at.queries} queries by ${at.keys} keys, pooled to ${tall} by ${wide} tiles`);
    const each = Math.ceil(at.queries / tall);
    info.textContent = `${at.queries.toLocaleString("en")} queries × ${at.keys.toLocaleString("en")} keys, head ${head}; each dot is the largest weight of ${each} × ${Math.ceil(at.keys / wide)}, shaded to ${num(most / 255, 2)}. Click, or use the arrows.`;
    now.scale = { x: (wide * scale) / at.keys, y: (tall * scale) / at.queries, wide: wide * scale, tall: tall * scale };
    await closer(current);
  }

  /** The exact part around the mark, and the row through it. */
  async function closer(current) {
    const { pass, at, head, scale } = now;
    const { q, k } = centre();
    const [[r0, r1], [c0, c1]] = [span(q, at.queries), span(k, at.keys)];
    const [part, line] = await Promise.all([pass.numbers("tile", { name: at.name, head, rows: `${r0}:${r1}`, columns: `${c0}:${c1}` }), pass.numbers("tile", { name: at.name, head, rows: `${q}:${q + 1}` })]);
    if (!current()) return;
    const cell = Math.max(3, Math.floor(Math.min(400, (node.clientWidth || 1100) * 0.3) / TILE));
    const context = sized(tile, (c1 - c0) * cell, (r1 - r0) * cell);
    const most = largest(part.data, 1e-6);
    paint(context, part.data, { rows: r1 - r0, columns: c1 - c0, cell, most });
    tile.dataset.most = String(most);
    context.strokeStyle = css("--mark");
    context.lineWidth = 1.5;
    context.strokeRect((k - c0) * cell - 1, (q - r0) * cell - 1, cell + 2, cell + 2);
    near.textContent = `rows ${r0}–${r1 - 1}, columns ${c0}–${c1 - 1}, exact, shaded to ${num(most)}; marked: ${num(line.data[k])}`;
    over.setAttribute("width", String(scale.wide));
    over.setAttribute("height", String(scale.tall));
    fill(over, s("rect", { x: c0 * scale.x, y: r0 * scale.y, width: Math.max(4, (c1 - c0) * scale.x), height: Math.max(4, (r1 - r0) * scale.y), fill: "none", stroke: css("--mark"), "stroke-width": 2 }));
    fill(row, ...strongestOf(line.data, pass, at, q));
    say(`query ${q}, key ${k}: ${num(line.data[k])}`);
  }

  whole.addEventListener("click", (event) => set({ q: clamp(Math.floor(event.offsetY / now.scale.y), now.at.queries), k: clamp(Math.floor(event.offsetX / now.scale.x), now.at.keys) }));
  const step = (down, across) => {
    const { q, k } = centre();
    set({ q: clamp(q + down, now.at.queries), k: clamp(k + across, now.at.keys) });
  };
  return { node, update, step, data: () => ({ attention: now.at.name, head: now.head, shape: [now.at.queries, now.at.keys], pooled: now.picture.shape, bytes: Array.from(now.picture.data) }) };
}

function strongestOf(weights, pass, at, q) {
  const [, keys] = pass.around(at.name);
  const order = Array.from(weights.keys()).sort((a, b) => weights[b] - weights[a]).slice(0, 14);
  const rows = order.map((key) => h("tr", {}, h("td", { class: "number muted", text: key }), h("td", { text: piece(keys.tokens[key]) }), h("td", { class: "number", text: weight(weights[key]) })));
  return [h("h2", { text: `“${piece(pass.writes(at.name).tokens[q])}” (${q}) attends to` }), h("table", { class: "numbers" }, ...rows)];
}
