/** Aggregated weights as the server (or the one-file page) has them: heads joined, values weighed in, sub-words merged, special tokens hidden. */

import { flag } from "./state.js";

/**
 * @typedef {{text: string, tokens: number[], special: boolean}} Label  one row or column, and the tokens it stands for
 * @typedef {{values: Float32Array, rows: Label[], columns: Label[], notes: string[]}} Shown
 */

/** Base64 to numbers: float32, or 16-bit steps of `scale`. */
export function decode({ weights, scale }) {
  const bytes = Uint8Array.from(atob(weights), (character) => character.charCodeAt(0));
  return scale === null ? new Float32Array(bytes.buffer) : Float32Array.from(new Uint16Array(bytes.buffer), (step) => step * scale);
}

/** The parameters of `/api/weights` that the switches stand for. */
export const aggregation = () => ({ words: flag("merge") ? 1 : undefined, specials: flag("hide") ? "hide" : undefined, values: flag("values") ? 1 : undefined });

/** One matrix: a head, or the mean or the largest of all. @returns {Promise<Shown>} */
export async function shownWeights(pass, at, how = aggregation()) {
  const joined = at.head === "mean" || at.head === "max";
  const found = await pass.ask("weights", { name: at.name, ...(joined ? { join: at.head } : { heads: at.head }), ...how });
  found.values ??= decode(found);
  return found;
}

/** The strongest weights, of one row or one column if it is given. @returns {{row: number, column: number, weight: number}[]} */
export function strongest({ values, rows, columns }, { row = null, column = null, count = 12, least = 0 }) {
  const found = [];
  const from = row === null ? 0 : row;
  const to = row === null ? rows.length : row + 1;
  for (let r = from; r < to; r++) {
    for (let c = column ?? 0; c < (column === null ? columns.length : column + 1); c++) {
      const weight = values[r * columns.length + c];
      if (weight > 0 && weight >= least) found.push({ row: r, column: c, weight });
    }
  }
  return found.sort((a, b) => b.weight - a.weight).slice(0, count);
}
