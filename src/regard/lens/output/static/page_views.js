// What there is to see: the data of the page, the views of it, and what the reader has chosen.
// Tokens are shown through textContent alone; nothing in these scripts builds markup from data.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const { layers, heads, queries, keys, colours } = data;
const Q = queries.length, K = keys.length, CELLS = Q * K;
const MOST_LINES = 800, LINES_WIDTH = 210, SIDE = 360;
const at = (id) => document.getElementById(id);
const make = (tag, parent, text) => {
  const made = parent.appendChild(document.createElement(tag));
  if (text !== undefined) made.textContent = text;
  return made;
};

const bytes = Uint8Array.from(atob(data.weights), (character) => character.charCodeAt(0));
const step = (index) => (bytes[2 * index] | (bytes[2 * index + 1] << 8)) / data.steps;
const mean = (first, count) => {
  const sum = new Float32Array(CELLS);
  for (let head = first; head < first + count; head++)
    for (let cell = 0; cell < CELLS; cell++) sum[cell] += step(head * CELLS + cell) / count;
  return sum;
};
// A view is a run of heads: all of them, one layer's, or one. `row` 0 holds the mean, the others one layer each.
const views = [];
const add = (row, label, short, first, count) => views.push({ row, label, short, first, count });
if (layers.length * heads > 1) add(0, `mean over ${layers.length} × ${heads} heads`, "mean", 0, layers.length * heads);
layers.forEach((name, layer) => {
  if (layers.length > 1 && heads > 1) add(layer + 1, `${name}, mean over ${heads} heads`, "mean", layer * heads, heads);
  for (let head = 0; head < heads; head++) add(layer + 1, `${name}, head ${head}`, `${head}`, layer * heads + head, 1);
});
const weightsOf = (view) => (view.weights ??= mean(view.first, view.count));

const state = { view: 0, least: 0.05, hover: null, pin: null };
const followed = () => state.hover ?? state.pin; // {q, k}: one of them null for a whole row or column
const same = (a, b) => a && b && a.q === b.q && a.k === b.k;
const touches = (spot, q, k) => (spot.q === null || spot.q === q) && (spot.k === null || spot.k === k);
