/** Two columns of tokens and a line for every weight worth one: which query attends to which key, at a glance. */

import { fill, h, piece, s } from "./dom.js";
import { largest } from "./heat.js";
import { strongest } from "./weights.js";

const MOST = 400; // lines: more are a grey cloud, and slow

/** @param {{pickRow: (row: number) => void, pickColumn: (column: number) => void, hoverRow: (row: number|null) => void, hoverColumn: (column: number|null) => void}} handlers */
export function lines(handlers) {
  const drawing = s("svg", { class: "lines", role: "img" });
  const node = h("div", { class: "lines-box" }, drawing);

  /** @param {import("./weights.js").Shown} shown */
  function draw(shown, mark, { wide, tall, least, each }) {
    const { rows, columns, values } = shown;
    const pitch = (count) => Math.min(26, (tall - 30) / Math.max(1, count));
    const [down, across] = [pitch(rows.length), pitch(columns.length)];
    const offset = (count, step) => 26 + Math.max(0, (Math.min(tall - 30, 26 * Math.max(rows.length, columns.length)) - count * step) / 2);
    const yRow = (n) => offset(rows.length, down) + (n + 0.5) * down;
    const yColumn = (n) => offset(columns.length, across) + (n + 0.5) * across;
    const [left, right] = [wide * 0.34, wide * 0.66];
    const most = Math.max(1e-6, largest(values));
    const drawn = kept(shown, mark, least * most, each);
    const all = drawn.map(({ row, column, weight }) => {
      const faded = mark.row !== null ? mark.row !== row : mark.column !== null && mark.column !== column;
      const share = weight / most;
      const opacity = (faded ? 0.12 : 0.95) * Math.sqrt(share);
      const curve = `M${left + 6},${yRow(row)} C${wide / 2},${yRow(row)} ${wide / 2},${yColumn(column)} ${right - 6},${yColumn(column)}`;
      return s("path", { d: curve, class: mark.row === row || (mark.row === null && mark.column === column) ? "line on" : "line", "stroke-width": 0.6 + 3 * share, "stroke-opacity": opacity.toFixed(3) });
    });
    const size = (step) => Math.max(7.5, Math.min(13, step - 1));
    const row = (one, n) => s("text", { x: left, y: yRow(n), "text-anchor": "end", "dominant-baseline": "central", "font-size": size(down), class: `pick ${mark.row === n ? "marked" : one.special ? "special" : ""}`, onclick: () => handlers.pickRow(n), onmouseenter: () => handlers.hoverRow(n), onmouseleave: () => handlers.hoverRow(null), text: piece(one.text) });
    const column = (one, n) => s("text", { x: right, y: yColumn(n), "dominant-baseline": "central", "font-size": size(across), class: `pick ${mark.column === n ? "marked" : one.special ? "special" : ""}`, onclick: () => handlers.pickColumn(n), onmouseenter: () => handlers.hoverColumn(n), onmouseleave: () => handlers.hoverColumn(null), text: piece(one.text) });
    drawing.setAttribute("width", String(wide));
    drawing.setAttribute("height", String(Math.max(60, Math.min(tall, 36 + 26 * Math.max(rows.length, columns.length)))));
    drawing.setAttribute("aria-label", `${drawn.length} lines from queries to keys`);
    fill(
      drawing,
      s("text", { x: left, y: 11, "text-anchor": "end", class: "title", text: "query" }),
      s("text", { x: right, y: 11, class: "title", text: "key" }),
      ...all,
      ...rows.map(row),
      ...columns.map(column),
    );
  }
  return { node, draw };
}

/** At most `each` of every query, none below the least, and never more than can be seen. */
function kept(shown, mark, least, each) {
  const found = shown.rows.flatMap((_, row) => strongest(shown, { row, count: each, least }));
  const some = mark.column === null ? found : [...found, ...shown.rows.flatMap((_, row) => strongest(shown, { row, column: mark.column, least }))];
  return some.sort((a, b) => a.weight - b.weight).slice(-MOST);
}
