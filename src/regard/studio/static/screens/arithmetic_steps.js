/** The steps of one weight, as vectors with what each of their numbers means (Vaswani et al. 2017, equation 1). */

import { h, num, piece } from "../dom.js";

const list = (values) => Array.from(values);

/** Where a token's vector starts: its embedding, and its place. */
function begins(token, side) {
  const { embedding, position, embedding_from: from, position_from: where } = side;
  if (!embedding) return [];
  const scaled = from.scale === 1 ? "" : ` × √D = ${num(from.scale, 2)}`;
  const word = { name: `E(${piece(token)})`, label: `embedding of ${piece(token)}`, values: embedding, description: (n) => `${from.tensor}, row ${from.row}, column ${n}${scaled}.` };
  if (!position) return [word];
  const wave = (n) => `${n % 2 ? "cos" : "sin"}(${where.row} / 10000^(${n - (n % 2)}/${position.length})), the position's own rhythm; nothing learned.`;
  const place = { name: `P(${where.row})`, label: `position ${where.row}`, values: position, description: (n) => (where.kind === "sinusoidal" ? wave(n) : `the learned table of positions, row ${where.row}, column ${n}.`) };
  return [word, place];
}

/** @returns {{title: string, sentence: string, vectors: import("../strip.js").Vector[], result?: (Node|string)[]}[]} */
export function vectorsOf(data, written, keys, pickKey) {
  const { query, key } = data;
  const same = query.stack === key.stack && query.row === key.row;
  const divided = data.scale === 1 ? "" : ` ÷ √${data.q.length} = ${num(data.scale)}`;
  const more = (n) => (data.bias ? ` + ${num(data.bias[n])} for the distance` : "");
  const turned = data.rotated ? ", both turned by their positions (rotary)" : "";
  const score = data.scores[key.row];
  const weight = data.weights[key.row];
  const seen = data.sees[key.row];
  const mark = { marked: key.row, picked: pickKey, names: keys.tokens };
  const column = (n) => `column ${n} of what the attention is given: embedding and position in the first layer, what the blocks before made of it later; in a pre-norm model, normalised.`;
  return [
    { title: "Two tokens", sentence: ` the query reads ${piece(query.token)}${written && written !== query.token ? ` (and writes ${piece(written)})` : ""}, the key is ${key.embedding ? piece(key.token) : `cell ${key.token} of the image, which has no embedding but what the encoder makes of its pixels`}`, vectors: [...begins(query.token, query), ...(same ? [] : begins(key.token, key))] },
    { title: "What goes in", sentence: " x, as this layer is given it", vectors: [
      { name: "x_query", label: `x of ${piece(query.token)}`, values: data.x_query, description: column },
      { name: "x_key", label: `x of ${piece(key.token)}`, values: data.x_key, description: column },
    ] },
    { title: "Query and key", sentence: ` q = W_Q x + b, k = W_K x + b${turned}`, vectors: [
      { name: "q", label: "q", vector: "q", values: data.q, description: () => `a row of W_Q times x of the query, plus a bias if the model has one${turned}.` },
      { name: "k", label: "k", vector: "k", values: data.k, description: () => `a row of W_K times x of the key, plus a bias if the model has one${turned}.` },
    ] },
    { title: "Products", sentence: " number by number, then summed", vectors: [
      { name: "q∘k", label: "q × k", vector: "dot", values: data.products, description: (n) => `q[${n}] × k[${n}] = ${num(data.q[n])} × ${num(data.k[n])}.` },
    ], result: ["q · k = ", h("b", { class: "number", text: num(data.dot) }), `  ${divided}${more(key.row)}: score `, h("b", { class: "number", text: num(score) })] },
    { title: "Scores of all keys", sentence: seen ? " this one is seen" : " this one is masked: minus infinity", vectors: [
      { name: "score", label: "score", values: list(data.scores).map((v, n) => (data.sees[n] ? v : 0)), ...mark, description: (n) => `${piece(keys.tokens[n])}: q · k${divided}${more(n)}${data.sees[n] ? "" : "; not seen, so minus infinity"}. Enter takes this key.` },
    ] },
    { title: "Softmax", sentence: " e^score ÷ the sum of all", vectors: [
      { name: "a", label: "weight", values: list(data.weights), kind: "weights", ...mark, description: (n) => `${piece(keys.tokens[n])}: e^${num(data.scores[n], 2)} ÷ Σ e^score. Enter takes this key.` },
    ], result: [`a(${piece(query.token)}, ${piece(key.token)}) = `, h("b", { class: "number", text: num(weight, 4) })] },
    { title: "Weighted values", sentence: " context = Σ a v, over all keys", vectors: [
      { name: "v", label: `v of ${piece(key.token)}`, vector: "v", values: data.v, description: () => "a row of W_V times x of the key, plus a bias." },
      { name: "a·v", label: `${num(weight, 2)} × v`, values: data.v.map((v) => v * weight), most: Math.max(1e-6, ...data.v.map(Math.abs)), description: (n) => `${num(weight, 4)} × ${num(data.v[n])}: what this key brings.` },
      { name: "context", label: "context", vector: "context", values: data.context, description: () => "what all keys bring, each by its weight." },
    ] },
    { title: "Output", sentence: " through this head's columns of W_O, then all heads and the bias", vectors: [
      { name: "share", label: "this head", vector: "share", values: data.share, description: () => "a row of W_O, in this head's columns, times the context." },
      { name: "out", label: "all heads", vector: "out", values: data.out, description: () => "what all heads bring together, plus a bias: what is added to the stream." },
    ] },
  ];
}
