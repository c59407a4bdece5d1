// What there is to see: the uses, their distances in every layer, and what the reader has chosen.
// Sentences are shown through textContent alone; nothing in these scripts builds markup from data.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const { layers, uses, groups } = data;
const U = uses.length, L = layers.length, PAIRS = (U * (U - 1)) / 2;
const at = (id) => document.getElementById(id);
const make = (tag, parent, text) => {
  const made = parent.appendChild(document.createElement(tag));
  if (text !== undefined) made.textContent = text;
  return made;
};
const draft = (tag, parent, settings, text) => {
  const made = parent.appendChild(document.createElementNS("http://www.w3.org/2000/svg", tag));
  for (const [name, value] of Object.entries(settings)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
};

const bytes = Uint8Array.from(atob(data.distances), (character) => character.charCodeAt(0));
const place = (a, b) => (a > b ? place(b, a) : a * U - (a * (a + 1)) / 2 + b - a - 1); // of a pair above the diagonal
const distance = (layer, a, b) => {
  if (a === b) return 0;
  const index = 2 * (layer * PAIRS + place(a, b));
  return (2 * (bytes[index] | (bytes[index + 1] << 8))) / data.steps;
};
const over = (a, b) => layers.map((_, layer) => distance(layer, a, b));
const layerName = (layer) => (layer === 0 ? "the static embedding" : `layer ${layers[layer]}`);

const state = { layer: data.layer, hover: null, pin: null }; // a spot is {a, b}; b is null for one use alone
const followed = () => state.hover ?? state.pin;
const same = (one, other) => one && other && one.a === other.a && one.b === other.b;
