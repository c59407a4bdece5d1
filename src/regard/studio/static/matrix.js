/** A matrix to point at and walk over: shades on a canvas, tokens as real text around it, a mark that pointer and keys move. */

import { onColour } from "./colour.js";
import { css, fill, h, piece, s } from "./dom.js";
import { largest, legend, paint, sized } from "./heat.js";

const SLANT = 8; // pixels that a label's foot stands beside its column's middle

/** @param {{pick: (row: number, column: number) => void, hover: (row: number|null, column: number|null) => void}} handlers */
export function matrix(handlers) {
  const canvas = h("canvas", { class: "cells", role: "img" });
  const over = s("svg", { class: "over" });
  const scale = h("canvas", { "aria-hidden": "true" });
  const ends = h("span", { class: "number" });
  const node = h("div", { class: "matrix" }, canvas, over);
  const least = h("span", { class: "number" });
  const foot = h("div", { class: "legend" }, least, scale, ends);
  const plan = { left: 0, top: 0, cell: 1, rows: 0, columns: 0, size: 12 };

  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top) / plan.cell);
    const column = Math.floor((event.clientX - box.left) / plan.cell);
    return row >= 0 && row < plan.rows && column >= 0 && column < plan.columns ? [row, column] : [null, null];
  };
  node.addEventListener("mousemove", (event) => handlers.hover(...place(event)));
  node.addEventListener("mouseleave", () => handlers.hover(null, null));
  node.addEventListener("click", (event) => {
    const [row, column] = place(event);
    if (row !== null) handlers.pick(row, column);
  });

  /** @param {import("./weights.js").Shown} shown @param {{row: number|null, column: number|null}} mark */
  function draw(shown, mark, { wide, tall, kind = "weights", most = undefined }) {
    const { values, rows, columns } = shown;
    Object.assign(plan, fitted(rows, columns, wide, tall));
    const top = most ?? Math.max(1e-6, kind === "signed" ? largest(values.map(Math.abs)) : largest(values));
    const size = { wide: columns.length * plan.cell, tall: rows.length * plan.cell };
    paint(sized(canvas, size.wide, size.tall), values, { rows: rows.length, columns: columns.length, cell: plan.cell, most: top, kind });
    canvas.style.left = `${plan.left}px`;
    canvas.style.top = `${plan.top}px`;
    canvas.dataset.most = String(top);
    canvas.dataset.cell = String(plan.cell);
    canvas.setAttribute("aria-label", `${rows.length} queries by ${columns.length} keys, shades from 0 to ${top.toFixed(2)}`);
    const whole = { wide: plan.left + size.wide + 40, tall: plan.top + size.tall + 4 };
    node.style.width = `${whole.wide}px`;
    node.style.height = `${whole.tall}px`;
    over.setAttribute("width", String(whole.wide));
    over.setAttribute("height", String(whole.tall));
    fill(over, ...labels(shown, plan, mark), ...inside(shown, plan, top, kind), ...marked(plan, mark));
    legend(scale, top, kind);
    ends.textContent = top.toFixed(top < 0.1 ? 3 : 2);
    least.textContent = kind === "signed" ? `−${ends.textContent}` : "0";
  }

  return { node, foot, draw, plan };
}

/** The largest cells that leave room for the labels, whose letters shrink with the cells. */
function fitted(rows, columns, wide, tall) {
  const letters = (list) => Math.min(18, Math.max(...list.map((one) => piece(one.text).length)));
  let plan = null;
  for (const size of [13, 12, 11, 10, 9]) {
    const left = letters(rows) * size * 0.58 + 12;
    const top = letters(columns) * size * 0.46 + 14;
    const room = Math.min((wide - left - letters(columns) * size * 0.3) / columns.length, (tall - top) / rows.length);
    plan = { left, top, size, cell: Math.max(2, Math.min(40, Math.floor(room))), rows: rows.length, columns: columns.length };
    if (plan.cell >= size * 1.35) break;
  }
  return plan;
}

function labels({ rows, columns }, plan, mark) {
  const every = Math.max(1, Math.ceil(11 / plan.cell));
  const { size } = plan;
  const down = rows.map((row, n) =>
    (n % every && n !== mark.row) ? null : s("text", { x: plan.left - 7, y: plan.top + (n + 0.5) * plan.cell, "text-anchor": "end", "dominant-baseline": "central", "font-size": size, class: n === mark.row ? "marked" : row.special ? "special" : "", text: piece(row.text) }),
  );
  const across = columns.map((column, n) => {
    if (n % every && n !== mark.column) return null;
    const x = plan.left + (n + 0.5) * plan.cell - SLANT / 2;
    return s("text", { x, y: plan.top - 6, transform: `rotate(-50 ${x} ${plan.top - 6})`, "font-size": size, class: n === mark.column ? "marked" : column.special ? "special" : "", text: piece(column.text) });
  });
  return [...down, ...across];
}

/** The strong ones say their number, where there is room for it. */
function inside({ values, columns }, plan, most, kind) {
  if (plan.cell < 27) return [];
  const found = [];
  for (let n = 0; n < values.length; n++) {
    const share = values[n] / most;
    if (Math.abs(values[n]) < 0.045 || found.length > 500) continue;
    const [row, column] = [Math.floor(n / columns.length), n % columns.length];
    const shown = Math.abs(values[n]) >= 0.995 ? values[n].toFixed(1) : values[n].toFixed(2).replace(/^(-?)0/, "$1").replace("-", "−");
    found.push(s("text", { x: plan.left + (column + 0.5) * plan.cell, y: plan.top + (row + 0.5) * plan.cell, "text-anchor": "middle", "dominant-baseline": "central", "font-size": 9.5, fill: onColour(share, kind), class: "within", text: shown }));
  }
  return found;
}

function marked(plan, { row, column }) {
  const found = [];
  const width = plan.columns * plan.cell;
  if (row !== null) found.push(s("rect", { x: plan.left, y: plan.top + row * plan.cell, width, height: plan.cell, class: "band" }));
  if (column !== null) found.push(s("rect", { x: plan.left + column * plan.cell, y: plan.top, width: plan.cell, height: plan.rows * plan.cell, class: "band" }));
  if (row !== null && column !== null) {
    found.push(s("rect", { x: plan.left + column * plan.cell - 1, y: plan.top + row * plan.cell - 1, width: plan.cell + 2, height: plan.cell + 2, fill: "none", stroke: css("--mark"), "stroke-width": 2 }));
  }
  return found;
}
