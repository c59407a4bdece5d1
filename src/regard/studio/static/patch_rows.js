/** What a view of an image shows: a number for each token, of the chosen layer and head or of all, and the small pictures beside it. */

import { layerName } from "./patch_views.js";

const MOST = 240; // thumbnails: of a deeper model, the means of its layers

/** Numbers of all tokens, by layer and head; the mean of heads where `head` is null, of layers where both are. */
function taken({ shape: [, heads, tokens], data }, layers, layer, head) {
  const found = new Float32Array(tokens);
  const some = layer === null ? layers.map((_, one) => one) : [layer];
  for (const one of some) {
    const own = head === null ? Array.from({ length: layers[one].heads }, (_, number) => number) : [head];
    for (const number of own) for (let t = 0; t < tokens; t++) found[t] += data[(one * heads + number) * tokens + t] / (own.length * some.length);
  }
  return found;
}

/** A number for each patch or pixel: the sum over its colours where each is a token; the last one drawn was read by none. */
export function onPatches(row, { first, tokens, rows, columns }) {
  const count = rows * columns;
  if (tokens === 1 && row.length >= first + count) return row.subarray(first, first + count);
  const found = new Float32Array(count);
  for (let t = first; t < Math.min(row.length, first + count * tokens); t++) found[Math.floor((t - first) / tokens)] += row[t];
  return found;
}

async function rollout(pass, token) {
  const found = await pass.numbers("image-rollout", token === null ? {} : { token });
  const [depth, tokens] = found.shape;
  const rows = Array.from({ length: depth }, (_, n) => found.data.subarray(n * tokens, (n + 1) * tokens));
  return { row: rows[depth - 1], small: rows.map((row, n) => ({ row, name: n === depth - 1 ? "all layers" : `from ${layerName(depth - 1 - n)}` })) };
}

async function latents(pass, count, chosen) {
  const [found, { names }] = await Promise.all([pass.numbers("image-latents", {}), pass.ask("image-latent-names")]);
  const all = names.map((name, n) => ({ name, latent: n, row: found.data.subarray(n * count, (n + 1) * count) }));
  return { row: all[Math.min(all.length - 1, chosen)].row, small: all };
}

async function byHead(pass, token, layers, layer, head) {
  const found = await pass.numbers("image-rows", { token });
  const all = layers.map((one, n) => [null, ...Array.from({ length: one.heads }, (_, number) => number)].map((at) => ({ at, n, name: one.name })));
  const few = all.flat().length > MOST ? all.map(([mean]) => [mean]) : all;
  const row = taken(found, layers, layer, head);
  return { row, grid: few.map((some) => some.map((one) => ({ ...one, row: taken(found, layers, one.n, one.at) }))), small: [] };
}

/** `row` is what the picture shows; `small` or, by layer and head, `grid` are the small pictures. */
export async function numbersOf(pass, image, { view, layers, layer, head, token, whole, label, latent }) {
  if (view === "none") return { row: null, small: [] };
  if (view === "rollout") return rollout(pass, whole ? null : token);
  if (view === "latents") return latents(pass, image.rows * image.columns, latent);
  if (view === "relevance") return { row: (await pass.numbers("image-relevance", { choice: label })).data, small: [] };
  if (view === "class" && !image.first) return { row: (await pass.numbers("image-pooled", {})).data, small: [] };
  return byHead(pass, token, layers, layer, head);
}
