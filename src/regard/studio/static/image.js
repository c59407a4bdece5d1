/** An image and what a word attended to in it: a veil lies over the rest, the thinner the larger a cell's weight. */

import { h, s, weight } from "./dom.js";
import { largest } from "./heat.js";

const DARK = 0.8; // of the light, what the veil takes where nothing was looked at
const FINE = 33; // dots of the veil along a cell: an odd number, so that one is the cell's own middle

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
function between(map, side, y, x) {
  const row = clamp(y, side - 1), column = clamp(x, side - 1);
  const top = Math.floor(row), left = Math.floor(column), down = row - top, across = column - left;
  const low = Math.min(top + 1, side - 1), right = Math.min(left + 1, side - 1);
  const at = (r, c) => map[r * side + c];
  return (at(top, left) * (1 - across) + at(top, right) * across) * (1 - down) + (at(low, left) * (1 - across) + at(low, right) * across) * down;
}

function veiled(canvas, map, side, most, fine = FINE) {
  const size = side * fine;
  canvas.width = canvas.height = size;
  const drawn = new ImageData(size, size);
  for (let y = 0, n = 3; y < size; y++)
    for (let x = 0; x < size; x++, n += 4) drawn.data[n] = Math.round(255 * DARK * (1 - between(map, side, (y + 0.5) / fine - 0.5, (x + 0.5) / fine - 0.5) / most));
  canvas.getContext("2d").putImageData(drawn, 0, 0);
  Object.assign(canvas.dataset, { most: String(most), dark: String(DARK), side: String(side) });
}

/** @returns {{node: HTMLElement, draw: (image: object, map: Float32Array|null, side: number, room: number) => void, tell: (map: Float32Array, side: number) => string}} */
export function lit(point) {
  const base = h("canvas", { id: "picture", role: "img", "aria-label": "the image" });
  const veil = h("canvas", { id: "veil", role: "img" });
  const over = s("svg", { class: "over" });
  const node = h("div", { class: "lit" }, base, veil, over);
  let now = null;

  function frame(cell, name) {
    const { wide, tall, side } = now;
    return s("rect", { class: name, x: (wide / side) * (cell % side), y: (tall / side) * Math.floor(cell / side), width: wide / side, height: tall / side });
  }
  function draw(image, map, side, room) {
    const [rows, columns] = image.shape;
    const scale = room / Math.max(rows, columns);
    const [wide, tall] = [Math.max(1, Math.round(columns * scale)), Math.max(1, Math.round(rows * scale))];
    now = { map, side, wide, tall };
    pixels(base, image);
    for (const part of [node, base, veil]) Object.assign(part.style, { width: `${wide}px`, height: `${tall}px` });
    over.setAttribute("width", String(wide));
    over.setAttribute("height", String(tall));
    over.replaceChildren();
    veil.hidden = map === null;
    if (map === null) return;
    veiled(veil, map, side, largest(map, 1e-9));
    over.append(frame(peak(map), "peak"));
    veil.setAttribute("aria-label", tell(map, side));
  }
  node.addEventListener("mousemove", (event) => {
    if (!now?.map) return;
    const box = node.getBoundingClientRect();
    const at = (length, where) => clamp(Math.floor((where / length) * now.side), now.side - 1);
    const cell = at(box.height, event.clientY - box.top) * now.side + at(box.width, event.clientX - box.left);
    over.replaceChildren(frame(peak(now.map), "peak"), frame(cell, "here"));
    point(`row ${Math.floor(cell / now.side) + 1}, column ${(cell % now.side) + 1}: ${weight(now.map[cell])}`);
  });
  node.addEventListener("mouseleave", () => {
    over.querySelector(".here")?.remove();
    point("");
  });
  return { node, draw };
}

/** A small picture of what a word attended to. */
export function thumbnail(image, map, side) {
  const canvas = pixels(h("canvas", { "aria-hidden": "true" }), image);
  const veil = h("canvas");
  veiled(veil, map, side, largest(map, 1e-9), 9);
  const context = canvas.getContext("2d");
  context.drawImage(veil, 0, 0, canvas.width, canvas.height);
  return canvas;
}

const peak = (map) => map.indexOf(largest(map, -1));

/** In words, for screen readers: where the largest weight is. */
export function tell(map, side) {
  const cell = peak(map);
  return `${weight(map[cell])} at row ${Math.floor(cell / side) + 1}, column ${(cell % side) + 1} of ${side} × ${side} cells`;
}
