/** The one-file page: the Head screen with its data inside. It asks nobody, and is written by `regard lens RUN TEXT --out FILE.html`. */

import { partOf, parts } from "./chosen.js";
import { h } from "./dom.js";
import { bind, help, screenKeys } from "./keys.js";
import { mount } from "./screens/head.js";
import { onChange, set, state } from "./state.js";
import { onTheme, turn } from "./theme.js";
import { decode } from "./weights.js";

const data = JSON.parse(document.getElementById("data").textContent);
const decoded = new Map();

/** What a screen asks of a look, answered from the data of the page. @see api.js */
const look = {
  data,
  attention: (name) => data.attentions.find((one) => one.name === name),
  /** Only weights are here: those of every head and of all heads joined, for each setting of the switches. */
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

const root = document.getElementById("screen");
const screen = mount(root, { switches: data.switches, offline: true });
let latest = 0;

async function update() {
  const mine = ++latest;
  root.dataset.ready = "";
  document.getElementById("refused")?.remove();
  try {
    await screen.update({ look }, () => mine === latest);
  } catch (error) {
    root.before(h("p", { id: "refused", role: "alert", text: error.message }));
  }
  root.dataset.ready = "head";
}

const toolbar = [["t", "Theme", turn], ["?", "Keys", () => help("this page")]];
document.getElementById("bar").append(
  h("h1", { text: data.title }),
  ...toolbar.map(([key, label, onclick]) => h("button", { type: "button", class: "tool", id: `tool-${label.toLowerCase()}`, title: `${label} (${key})`, onclick }, h("kbd", { text: key }), h("span", { text: label }))),
);
bind(
  { key: "t", tells: "light or dark", does: turn },
  { key: "?", tells: "these keys", does: () => help("this page") },
  { key: "m", tells: "mean of all layers and heads", does: () => set({ at: parts(look).find((part) => part === partOf(data.first)) ?? data.first, head: null }) },
  { key: "Escape", tells: "unpin", does: () => set({ q: null, k: null }) },
);
screenKeys(() => screen.keys({ look }));
onChange(update);
onTheme(update);
window.addEventListener("resize", update);
if (state().at === undefined) set({ screen: "head", at: parts(look).find((part) => part === partOf(data.first)) ?? data.first });
update();
