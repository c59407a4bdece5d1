/** Arithmetic: one weight, from two tokens' vectors to what the head adds, with the model's own numbers; each says where it is from. */

import { called, chosen, headNames, moving, notCause } from "../chosen.js";
import { panel, select } from "../controls.js";
import { fill, h, num, piece, say } from "../dom.js";
import { number, set } from "../state.js";
import { strip } from "../strip.js";
import { vectorsOf } from "./arithmetic_steps.js";

export const arithmetic = { id: "arithmetic", title: "Arithmetic", description: "one weight, number by number", mount, attends: true };

function mount(root) {
  let now = null;
  const tokens = (side) => (now ? side().tokens.map((token, n) => [String(n), `${n}  ${piece(token)}`]) : []);
  const controls = panel(
    select("at", "attention", () => (now?.pass.data.attentions ?? []).map((one) => [one.name, called(one.name)]), () => now?.at.name),
    select("head", "head", () => (now?.at ? headNames(now.at) : []), () => String(now?.at.number)),
    select("q", "query", () => tokens(() => now.pass.writes(now.at.name)), () => String(now?.q ?? 0)),
    select("k", "key", () => tokens(() => now.pass.around(now.at.name)[1]), () => String(now?.k ?? 0)),
  );
  const flow = h("div", { class: "flow" });
  const source = h("div", { class: "source" });
  const side = h("aside", { class: "card detail" }, source, notCause(() => now.pass));
  root.append(h("div", { class: "strip" }, controls.node), h("div", { class: "arithmetic-main" }, flow, side));
  let asking = 0;

  /** A number was chosen: what it is, and the products it is the sum of. */
  async function chose(vector, index) {
    const mine = ++asking;
    const title = h("h2", {}, `${vector.name}[${index}]`, h("b", { class: "big number", text: num(vector.values[index], 4) }));
    const info = vector.description(index);
    fill(source, title, h("p", { text: info }));
    say(`${vector.name} ${index}: ${num(vector.values[index])}. ${info}`);
    if (!vector.vector) return;
    const { at, q, k } = now;
    const found = await now.pass.ask("terms", { name: at.name, head: at.number, query: q, key: k, vector: vector.vector, index: vector.vector === "dot" ? 0 : index });
    if (mine === asking) fill(source, title, h("p", { text: info }), ...sum(found));
  }

  async function update({ pass }, current) {
    const at = chosen(pass);
    const clamp = (n, most) => Math.min(most - 1, Math.max(0, n));
    now = { pass, at, q: clamp(number("q", 0), at.queries), k: clamp(number("k", 0), at.keys) };
    controls.sync();
    let data;
    try {
      data = await pass.ask("arithmetic", { name: at.name, head: at.number, query: now.q, key: now.k });
    } catch (error) {
      if (error.status !== 400 || !current()) throw error;
      fill(source);
      return fill(flow, h("section", { class: "card" }, h("p", { class: "muted", text: error.message })));
    }
    if (!current()) return;
    now.data = data;
    const wide = Math.max(240, flow.clientWidth - 250);
    const steps = vectorsOf(data, pass.writes(at.name).tokens[now.q], pass.around(at.name)[1], (k) => set({ k }));
    fill(flow, ...steps.map((one, n) => step(one, n + 1, chose, wide)));
    const check = data.difference < 1e-3;
    fill(source, h("h2", { text: "Where numbers come from" }), h("p", { text: "Point at a number, or walk: Tab goes from vector to vector, ← and → from number to number." }),
      h("p", {}, h("span", { class: check ? "pill good" : "pill bad", text: check ? "✓ equal to the model's" : "✗ not equal to the model's" }), h("span", { class: "muted", text: ` the context computed here differs from the kernel's by at most ${num(data.difference)}` })));
  }

  const walk = (by) => {
    const strips = [...flow.querySelectorAll("canvas.vector")];
    strips[(strips.indexOf(document.activeElement) + by + strips.length) % strips.length]?.focus();
  };
  return {
    update,
    keys: ({ pass }) => [
      { key: "ArrowDown", shown: "↓", description: "next vector", action: () => walk(1) },
      { key: "ArrowUp", shown: "↑", description: "vector before", action: () => walk(-1) },
      { key: "ArrowRight", shown: "← →", description: "from number to number", action: () => walk(1) },
      { key: "k", description: "next key", action: () => set({ k: (now.k + 1) % now.at.keys }) },
      { key: "q", description: "next query", action: () => set({ q: (now.q + 1) % now.at.queries }) },
      ...moving(pass),
    ],
    data: () => ({ attention: now.at.name, head: now.at.number, query: now.q, key: now.k, ...now.data }),
  };
}

function step({ title, sentence, vectors, result }, n, chose, wide) {
  return h("section", { class: "card sum" },
    h("h2", {}, h("span", { class: "count", text: n }), title, h("span", { class: "muted", text: sentence })),
    ...vectors.map((vector) => strip(vector, chose, wide)),
    result && h("p", { class: "result" }, ...result));
}

function sum(found) {
  const shown = found.terms.map((one) => h("tr", {}, h("td", { text: one.of }), h("td", { class: "number", text: num(one.a) }), h("td", { class: "muted", text: "×" }), h("td", { class: "number", text: num(one.b) }), h("td", { class: "number", text: num(one.product) })));
  const line = (label, value) => h("tr", { class: "foot" }, h("td", { colspan: 4, text: label }), h("td", { class: "number", text: num(value) }));
  const more = found.of - found.terms.length;
  return [h("p", { class: "muted", text: found.source }), h("table", { class: "numbers" }, ...shown, more > 0 && line(`${more} smaller terms`, found.rest), found.bias !== 0 && line("bias", found.bias), line("sum", found.sum))];
}
