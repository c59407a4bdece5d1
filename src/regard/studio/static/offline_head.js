/** The one-file page of attention: the Head screen with its data inside. `regard lens RUN TEXT --out FILE.html` writes it. */

import { partOf, parts } from "./chosen.js";
import { data, root, start } from "./offline.js";
import { mount } from "./screens/head.js";
import { set, state } from "./state.js";
import { decode } from "./weights.js";

const decoded = new Map();

/** What the screen asks of a pass, answered from the data of the page. @see api.js */
const pass = {
  data,
  attention: (name) => data.attentions.find((one) => one.name === name),
  /** Weights of every head and of all heads joined, for each setting of the switches. */
  async ask(_, { name, heads, join, words, specials, values }) {
    const key = `${name} ${words ? 1 : 0}${specials ? 1 : 0}${values ? 1 : 0}`;
    const found = data.matrices[key];
    if (!found.weights) throw new Error(found.refused);
    if (!decoded.has(key)) decoded.set(key, decode(found));
    const number = found.heads.indexOf(join ?? heads);
    const size = found.rows.length * found.columns.length;
    const joined = join ? [`${join === "mean" ? "Mean" : "Largest"} of ${found.of} heads.`] : [];
    return { ...found, notes: [...joined, ...found.notes], values: decoded.get(key).subarray(number * size, (number + 1) * size) };
  },
};

const opening = parts(pass).find((part) => part === partOf(data.first)) ?? data.first;
if (state().at === undefined) set({ screen: "head", at: opening });
start(mount(root, { switches: data.switches, offline: true }), { pass },
  { key: "m", description: "mean of all layers and heads", action: () => set({ at: opening, head: null }) },
  { key: "Escape", description: "unpin", action: () => set({ q: null, k: null }) },
);
