/** From the weights of an attention to those that are shown: heads joined, values weighed in, sub-words merged, marks hidden. */

import { numbers } from "./api.js";
import { flag } from "./state.js";

/**
 * @typedef {{text: string, from: number[], special: boolean}} Label  one row or column, and the tokens it stands for
 * @typedef {{values: Float32Array, rows: Label[], columns: Label[], notes: string[]}} Shown
 */

const labels = (side) => side.tokens.map((text, n) => ({ text, from: [n], special: side.special[n] }));

/** Pieces of one word become one label. */
function words(side) {
  /** @type {Label[]} */
  const found = [];
  side.tokens.forEach((text, n) => {
    if (n && side.words[n] === side.words[n - 1] && !side.special[n]) {
      found.at(-1).text += text.replace(/^##/, "");
      found.at(-1).from.push(n);
    } else found.push({ text, from: [n], special: side.special[n] });
  });
  return found;
}

/** One matrix of what may be several heads: their mean, or the largest of them. */
function joined(data, heads, size, how) {
  if (heads === 1) return data;
  const one = new Float32Array(size);
  for (let head = 0; head < heads; head++) {
    for (let n = 0; n < size; n++) {
      const value = data[head * size + n];
      if (how === "max") one[n] = Math.max(one[n], value);
      else one[n] += value / heads;
    }
  }
  return one;
}

/** Each weight times the length of what it brings: the value, as the head's part of the output projection makes it. */
function weighed(data, norms, heads, queries, keys, first) {
  const found = new Float32Array(data.length);
  for (let head = 0; head < heads; head++) {
    for (let row = 0; row < queries; row++) {
      const at = (head * queries + row) * keys;
      for (let key = 0; key < keys; key++) found[at + key] = data[at + key] * norms[(first + head) * keys + key];
    }
  }
  return found;
}

/** Rows are means over a word's pieces, columns are sums: a word looks as its pieces do, and is looked at as all of them are. */
function gathered(data, keys, rows, columns) {
  const found = new Float32Array(rows.length * columns.length);
  rows.forEach((row, r) => {
    columns.forEach((column, c) => {
      let sum = 0;
      for (const i of row.from) for (const j of column.from) sum += data[i * keys + j];
      found[r * columns.length + c] = sum / row.from.length;
    });
  });
  return found;
}

/** @returns {Promise<Shown>} */
export async function shownWeights(look, at) {
  const all = at.head === "mean" || at.head === "max";
  const heads = all ? at.heads : 1;
  const asked = all ? Array.from({ length: at.heads }, (_, n) => n).join(",") : at.head;
  let { data } = await look.of(numbers, "weights", { name: at.name, heads: asked });
  const notes = [];
  if (flag("values")) {
    const { data: norms } = await look.of(numbers, "norms", { name: at.name });
    data = weighed(data, norms, heads, at.queries, at.keys, all ? 0 : at.number);
    notes.push("weight × length of the value it brings");
  }
  data = joined(data, heads, at.queries * at.keys, at.head);
  if (all) notes.push(at.head === "mean" ? `mean of ${heads} heads` : `largest of ${heads} heads`);
  const [, keys] = look.around(at.name);
  const merge = flag("merge") ? words : labels;
  const keep = (label) => !(flag("hide") && label.special);
  const rows = merge(look.writes(at.name)).filter(keep);
  const columns = merge(keys).filter(keep);
  if (flag("merge")) notes.push("sub-words merged: sums over keys, means over queries");
  if (flag("hide")) notes.push("marks left out; rows no longer sum to one");
  return { values: gathered(data, at.keys, rows, columns), rows, columns, notes };
}

/** The strongest, by the row they are in if one is chosen. @returns {{row: number, column: number, weight: number}[]} */
export function strongest({ values, rows, columns }, { row = null, count = 12, least = 0 }) {
  const found = [];
  const from = row === null ? 0 : row;
  const to = row === null ? rows.length : row + 1;
  for (let r = from; r < to; r++) {
    for (let c = 0; c < columns.length; c++) {
      const weight = values[r * columns.length + c];
      if (weight > 0 && weight >= least) found.push({ row: r, column: c, weight });
    }
  }
  return found.sort((a, b) => b.weight - a.weight).slice(0, count);
}
