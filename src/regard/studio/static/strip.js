/** A vector as a strip of cells, walked by pointer and keys: each cell is one number that can say where it comes from. */

import { onColour } from "./colour.js";
import { css, h, num, piece } from "./dom.js";
import { largest, paint, sized } from "./heat.js";

/** As few letters as a cell has room for. */
const short = (value) => (Math.abs(value) < 0.005 ? "0" : Math.abs(value) >= 9.95 ? value.toFixed(0) : Math.abs(value) >= 0.995 ? value.toFixed(1) : value.toFixed(2).replace(/^(-?)0/, "$1")).replace("-", "−");

/**
 * @typedef {{label: string, names?: string[], values: number[], name: string, vector?: string, marked?: number, note?: string, kind?: string,
 *   most?: number, description: (index: number) => string, picked?: (index: number) => void}} Vector
 * @param {Vector} vector
 * @param {(vector: Vector, index: number) => void} chose
 */
export function strip(vector, chose, wide) {
  const { values } = vector;
  const cell = Math.max(2, Math.min(values.length > 40 ? 26 : 58, Math.floor(wide / values.length)));
  const tall = 22;
  const named = vector.names !== undefined && cell >= 20;
  const canvas = h("canvas", { tabindex: 0, class: "vector", role: "slider", "aria-valuemin": 0, "aria-valuemax": values.length - 1, "data-name": vector.name });
  const kind = vector.kind ?? "signed";
  let at = Math.max(0, vector.marked ?? 0);

  function draw() {
    const most = vector.most ?? largest(values.map(Math.abs), 1e-6);
    const context = sized(canvas, cell * values.length, tall + (named ? 14 : 0));
    paint(context, values, { rows: 1, columns: values.length, wide: cell * values.length, tall, most, kind });
    write(context, most);
    if (vector.marked !== undefined) edge(context, vector.marked, css("--ink"), 1);
    if (document.activeElement === canvas) edge(context, at, css("--mark"), 2);
    canvas.dataset.most = String(most);
    canvas.setAttribute("aria-label", vector.label);
    canvas.setAttribute("aria-valuenow", String(at));
    canvas.setAttribute("aria-valuetext", `${vector.name}[${at}] = ${num(values[at])}`);
  }
  /** The numbers themselves, where there is room; and below, what each is of. */
  function write(context, most) {
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = `${cell >= 38 ? 10.5 : cell >= 30 ? 9.5 : 8.5}px ${css("--sans")}`;
    for (let n = 0; n < values.length && cell >= 25; n++) {
      context.fillStyle = onColour(values[n] / most, kind);
      context.fillText(short(values[n]), (n + 0.5) * cell, tall / 2 + 0.5);
    }
    context.fillStyle = css("--muted");
    for (let n = 0; n < values.length && named; n++) {
      const most = Math.floor(cell / 5.6);
      const name = piece(vector.names[n]);
      context.fillText(name.length > most ? `${name.slice(0, most - 1)}…` : name, (n + 0.5) * cell, tall + 8);
    }
  }
  function edge(context, index, colour, width) {
    context.strokeStyle = colour;
    context.lineWidth = width;
    context.strokeRect(index * cell + width / 2, width / 2, Math.max(2, cell - width), tall - width);
  }
  function go(index) {
    at = Math.min(values.length - 1, Math.max(0, index));
    draw();
    chose(vector, at);
  }
  canvas.addEventListener("mousemove", (event) => {
    const index = Math.floor(event.offsetX / cell);
    if (index !== at || document.activeElement !== canvas) {
      canvas.focus({ preventScroll: true });
      go(index);
    }
  });
  canvas.addEventListener("click", () => vector.picked?.(at));
  canvas.addEventListener("focus", () => go(at));
  canvas.addEventListener("blur", draw);
  canvas.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (by) go(at + by);
    else if (event.key === "Enter" && vector.picked) vector.picked(at);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  draw();
  return h("div", { class: "vector-row" }, h("span", { class: "vector-name", text: vector.label }), canvas, h("span", { class: "muted note", text: vector.note ?? "" }));
}
