/** Numbers as shades on a canvas: each cell a whole number of pixels, so that a pixel can be read back as its number. */

import { levels } from "./colour.js";

/**
 * Paint rows × columns of numbers between 0 and `most` (or −most and most where signed) at a place of a canvas.
 * @param {CanvasRenderingContext2D} context
 * @param {ArrayLike<number>} values  row by row
 * @param {{rows: number, columns: number, x?: number, y?: number, cell?: number, wide?: number, tall?: number, most?: number, kind?: string}} how
 *   `cell` pixels a cell, or stretched to `wide` × `tall`
 */
export function paint(context, values, how) {
  const { rows, columns, x = 0, y = 0, most = 1, kind = "weights" } = how;
  const map = levels(kind);
  const image = new ImageData(columns, rows);
  const scale = kind === "signed" ? 127.5 / most : 255 / most;
  const shift = kind === "signed" ? 127.5 : 0;
  const whole = new Uint32Array(image.data.buffer);
  const shades = new Uint32Array(map.buffer);
  for (let n = 0; n < rows * columns; n++) {
    const level = Math.round(values[n] * scale + shift);
    whole[n] = shades[level < 0 || level !== level ? 0 : level > 255 ? 255 : level];
  }
  const small = new OffscreenCanvas(columns, rows);
  small.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, x, y, how.wide ?? columns * how.cell, how.tall ?? rows * how.cell);
}

/** A canvas of this many CSS pixels, sharp on any screen. */
export function sized(canvas, wide, tall) {
  const dense = Math.max(1, Math.round(window.devicePixelRatio || 1));
  canvas.width = Math.max(1, Math.round(wide * dense));
  canvas.height = Math.max(1, Math.round(tall * dense));
  canvas.style.width = `${wide}px`;
  canvas.style.height = `${tall}px`;
  const context = canvas.getContext("2d");
  context.setTransform(dense, 0, 0, dense, 0, 0);
  context.clearRect(0, 0, wide, tall);
  return context;
}

/** The largest of many numbers, without spreading them over a call. */
export function largest(values, least = 0) {
  let most = least;
  for (let n = 0; n < values.length; n++) if (values[n] > most) most = values[n];
  return most;
}

/** A strip that says what shades mean. */
export function legend(canvas, most, kind = "weights") {
  const context = sized(canvas, 128, 10);
  const ramp = Float32Array.from({ length: 128 }, (_, n) => (kind === "signed" ? (2 * n) / 127 - 1 : n / 127) * most);
  paint(context, ramp, { rows: 1, columns: 128, wide: 128, tall: 10, most, kind });
}
