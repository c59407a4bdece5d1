/** Curves over a common axis, as a drawing: a few, distinguished by colour and by name at their ends. */

import { kind } from "./colour.js";
import { num, s } from "./dom.js";

const axis = (value) => (Number.isInteger(value) ? value.toLocaleString("en") : num(value, 2));

/**
 * @param {Record<string, [number, number][]>} lines
 * @param {{wide: number, tall: number, x: string, marks?: number[], log?: boolean}} how
 */
export function curves(lines, { wide, tall, x, marks = [], log = false }) {
  const names = Object.keys(lines).filter((name) => lines[name].length);
  const points = names.flatMap((name) => lines[name]).filter(([, b]) => b !== null && Number.isFinite(b));
  const drawing = s("svg", { width: wide, height: tall, class: "curves", role: "img", "aria-label": names.join(", ") });
  if (!points.length) return drawing;
  const up = (v) => (log ? Math.log(Math.max(v, 1e-12)) : v);
  const span = (values) => [Math.min(...values), Math.max(...values)];
  const [x0, x1] = span(points.map(([a]) => a));
  const [low, high] = span(points.map(([, b]) => up(b)));
  const label = Math.min(150, Math.max(...names.map((name) => name.length)) * 7 + 12);
  const [left, right, top, bottom] = [52, wide - label, 10, tall - 26];
  const px = (a) => left + ((a - x0) / (x1 - x0 || 1)) * (right - left);
  const py = (b) => bottom - ((up(b) - low) / (high - low || 1)) * (bottom - top);
  for (const y of [low, (low + high) / 2, high]) {
    const at = bottom - ((y - low) / (high - low || 1)) * (bottom - top);
    drawing.append(s("line", { x1: left, x2: right, y1: at, y2: at, class: "rule" }), s("text", { x: left - 6, y: at, "text-anchor": "end", "dominant-baseline": "central", "font-size": 10, class: "small", text: num(log ? Math.exp(y) : Math.abs(y) < 1e-6 ? 0 : y, 2) }));
  }
  drawing.append(s("text", { x: left, y: tall - 8, "font-size": 10, class: "small", text: axis(x0) }), s("text", { x: right, y: tall - 8, "text-anchor": "end", "font-size": 10, class: "small", text: `${axis(x1)} ${x}` }));
  for (const mark of marks) drawing.append(s("line", { x1: px(mark), x2: px(mark), y1: top, y2: bottom, class: "mark" }));
  const ends = names.map((name, n) => ({ name, n, y: py(lines[name].at(-1)[1]) })).sort((a, b) => a.y - b.y);
  ends.forEach((end, n) => {
    end.y = Math.max(end.y, n ? ends[n - 1].y + 12 : top);
  });
  names.forEach((name, n) => {
    const way = lines[name].filter(([, b]) => b !== null && Number.isFinite(b)).map(([a, b], i) => `${i ? "L" : "M"}${px(a).toFixed(1)},${py(b).toFixed(1)}`).join("");
    drawing.append(s("path", { d: way, class: "curve", stroke: kind(n) }));
  });
  for (const { name, n, y } of ends) drawing.append(s("text", { x: right + 6, y, "dominant-baseline": "central", "font-size": 11, class: "name", fill: kind(n), text: name }));
  return drawing;
}
