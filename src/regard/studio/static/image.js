/**
 * An image and what a word or a patch attended to in it: a veil lies over the rest, the thinner the larger a cell's weight.
 * @typedef {{rows: number, columns: number}} Grid  cells of the image, of which a map has a number each, row by row
 */

import { h, s, weight } from "./dom.js";
import { largest } from "./heat.js";

const DARK = 0.8; // of the light, what the veil takes where nothing was looked at
const FINE = 33; // dots of the veil along a cell: an odd number, so that one is the cell's own middle
const DOTS = 1100; // along a side of the veil at most, unless there are more cells

export const square = (side) => ({ rows: side, columns: side });

/** Bytes of red, green and blue as a canvas of that many pixels. @param {{shape: number[], data: Uint8Array}} image */
export function pixels(canvas, { shape: [tall, wide], data }, offset = 0) {
  canvas.width = wide;
  canvas.height = tall;
  const drawn = new ImageData(wide, tall);
  for (let n = 0; n < wide * tall; n++) {
    drawn.data.set(data.subarray(offset + 3 * n, offset + 3 * n + 3), 4 * n);
    drawn.data[4 * n + 3] = 255;
  }
  canvas.getContext("2d").putImageData(drawn, 0, 0);
  return canvas;
}

const clamp = (value, most) => Math.max(0, Math.min(most, value));

/** Between the middles of cells light changes evenly. */
function between(map, { rows, columns }, y, x) {
  const row = clamp(y, rows - 1), column = clamp(x, columns - 1);
  const top = Math.floor(row), left = Math.floor(column), down = row - top, across = column - left;
  const low = Math.min(top + 1, rows - 1), right = Math.min(left + 1, columns - 1);
  const at = (r, c) => map[r * columns + c];
  return (at(top, left) * (1 - across) + at(top, right) * across) * (1 - down) + (at(low, left) * (1 - across) + at(low, right) * across) * down;
}

function veiled(canvas, map, grid, most, fine) {
  const [wide, tall] = [grid.columns * fine, grid.rows * fine];
  canvas.width = wide;
  canvas.height = tall;
  const drawn = new ImageData(wide, tall);
  for (let y = 0, n = 3; y < tall; y++)
    for (let x = 0; x < wide; x++, n += 4) drawn.data[n] = Math.round(255 * DARK * (1 - between(map, grid, (y + 0.5) / fine - 0.5, (x + 0.5) / fine - 0.5) / most));
  canvas.getContext("2d").putImageData(drawn, 0, 0);
  Object.assign(canvas.dataset, { most: String(most), dark: String(DARK), rows: String(grid.rows), columns: String(grid.columns) });
}

/** Dots of the veil along a cell. */
const fineness = ({ rows, columns }) => Math.max(1, Math.min(FINE, 2 * Math.floor((DOTS / Math.max(rows, columns) - 1) / 2) + 1));

/**
 * @param {(text: string) => void} point  what the pointer is on
 * @param {((cell: number) => void)|null} pick  a cell was chosen
 * @returns {{node: HTMLElement, draw: (image: object, map: Float32Array|null, grid: Grid, room: number, query?: number|null) => void}}
 */
export function lit(point, pick = null) {
  const base = h("canvas", { id: "picture", role: "img", "aria-label": "the image" });
  const veil = h("canvas", { id: "veil", role: "img" });
  const over = s("svg", { class: "over" });
  const node = h("div", { class: "lit" }, base, veil, over);
  let now = null;

  function frame(cell, name) {
    const { wide, tall, grid } = now;
    const [high, broad] = [tall / grid.rows, wide / grid.columns];
    return s("rect", { class: name, x: broad * (cell % grid.columns), y: high * Math.floor(cell / grid.columns), width: broad, height: high });
  }
  /** The frames that stay: of the largest weight, and of the patch that attends. */
  const frames = () => [now.map && frame(peak(now.map), "peak"), now.query !== null && frame(now.query, "query")].filter(Boolean);

  function draw(image, map, grid, room, query = null) {
    const [rows, columns] = image.shape;
    const scale = room / Math.max(rows, columns);
    const [wide, tall] = [Math.max(1, Math.round(columns * scale)), Math.max(1, Math.round(rows * scale))];
    now = { map, grid, wide, tall, query };
    pixels(base, image);
    for (const part of [node, base, veil]) Object.assign(part.style, { width: `${wide}px`, height: `${tall}px` });
    base.style.imageRendering = columns * 3 < wide ? "pixelated" : "";
    over.setAttribute("width", String(wide));
    over.setAttribute("height", String(tall));
    veil.hidden = map === null;
    over.replaceChildren(...frames());
    if (map === null) return;
    veiled(veil, map, grid, largest(map, 1e-9), fineness(grid));
    veil.setAttribute("aria-label", tell(map, grid));
  }
  const cellAt = (event) => {
    const box = node.getBoundingClientRect();
    const at = (length, where, count) => clamp(Math.floor((where / length) * count), count - 1);
    return at(box.height, event.clientY - box.top, now.grid.rows) * now.grid.columns + at(box.width, event.clientX - box.left, now.grid.columns);
  };
  node.addEventListener("mousemove", (event) => {
    if (!now || !(now.map || pick)) return;
    const cell = cellAt(event);
    over.replaceChildren(...frames(), frame(cell, "here"));
    point(`${called(cell, now.grid)}${now.map ? `: ${weight(now.map[cell])}` : ""}`);
  });
  if (pick) node.addEventListener("click", (event) => now && pick(cellAt(event)));
  node.addEventListener("mouseleave", () => {
    over.querySelector(".here")?.remove();
    point("");
  });
  return { node, draw };
}

/** A small picture of what a word attended to. */
export function thumbnail(image, map, grid) {
  const canvas = pixels(h("canvas", { "aria-hidden": "true" }), image);
  const context = canvas.getContext("2d");
  context.drawImage(veil(map, grid, 9), 0, 0, canvas.width, canvas.height);
  return canvas;
}

/** The image made small, for many thumbnails of it. */
export function small(image, side) {
  const [rows, columns] = image.shape;
  const scale = side / Math.max(rows, columns);
  const canvas = h("canvas", { width: Math.max(1, Math.round(columns * scale)), height: Math.max(1, Math.round(rows * scale)) });
  canvas.getContext("2d").drawImage(pixels(h("canvas"), image), 0, 0, canvas.width, canvas.height);
  return canvas;
}

/** A thumbnail on such a small image. */
export function veiledSmall(base, map, grid) {
  const canvas = h("canvas", { "aria-hidden": "true", width: base.width, height: base.height });
  const context = canvas.getContext("2d");
  context.drawImage(base, 0, 0);
  context.drawImage(veil(map, grid, 3), 0, 0, base.width, base.height);
  return canvas;
}

function veil(map, grid, fine) {
  const made = h("canvas");
  veiled(made, map, grid, largest(map, 1e-9), fine);
  return made;
}

export const peak = (map) => map.indexOf(largest(map, -1));

/** A cell by its row and column. */
export const called = (cell, { columns }) => `row ${Math.floor(cell / columns) + 1}, column ${(cell % columns) + 1}`;

/** In words, for screen readers: where the largest weight is. */
export function tell(map, grid) {
  const cell = peak(map);
  return `${weight(map[cell])} at ${called(cell, grid)} of ${grid.rows} × ${grid.columns} cells`;
}
