/** Which attention and which head a view is of, and the sentence that every picture of one carries. */

import { h } from "./dom.js";
import { set, state } from "./state.js";

const STACKS = { encoder: "encoder", decoder: "decoder" };

/** "decoder.1.cross" for people: decoder 2, cross. Layers are counted from 1, as in papers; names stay as in the code. */
export function called(name) {
  const [stack, layer, kind] = name.split(".");
  if (kind === undefined) return name.replace(".", ", ");
  return `${STACKS[stack] ?? stack} ${Number(layer) + 1} ${kind}`;
}

/** Heads of an attention for a control: the number of each, with that of the keys and values where a group of heads shares them. */
export function headNames(one) {
  const size = one.heads / one.kv_heads;
  return Array.from({ length: one.heads }, (_, n) => [String(n), size > 1 ? `${n} (keys ${Math.floor(n / size)})` : String(n)]);
}

/** Where alignment is to be seen: the last cross-attention, or the last of all. */
const first = (pass) => (pass.data.attentions.findLast((one) => one.name.endsWith(".cross")) ?? pass.data.attentions.at(-1)).name;

/** Parts of the model that have several layers: "cross", "decoder", "encoder". Their attentions can be shown joined. */
export function parts(pass) {
  const names = pass.data.attentions.map((one) => partOf(one.name));
  return [...new Set(names)].filter((part) => names.indexOf(part) !== names.lastIndexOf(part));
}
export const partOf = (name) => (name.endsWith(".cross") ? "cross" : name.split(".")[0]);

/** A part as if it were one attention, whose heads are always joined. */
export function wholePart(pass, part) {
  const { queries, keys } = pass.data.attentions.find((one) => partOf(one.name) === part);
  return { name: part, heads: 0, queries, keys, head: state().head === "max" ? "max" : "mean", number: 0 };
}

/** @returns {{name: string, heads: number, queries: number, keys: number, head: string, number: number}} */
export function chosen(pass) {
  const one = pass.attention(state().at) ?? pass.attention(first(pass));
  const asked = state().head ?? "0";
  const head = asked === "mean" || asked === "max" ? asked : String(Math.min(one.heads - 1, Math.max(0, Number.parseInt(asked, 10) || 0)));
  return { ...one, head, number: Number(head) || 0 };
}

/** One layer or head further than `at`; the last goes on to the first. From joined heads, to the first or last of them. */
export function move(pass, layers, heads, at) {
  const names = pass.data.attentions.map((one) => one.name);
  const here = names.indexOf(at.name);
  const name = names[(here < 0 && layers < 0 ? names.length - 1 : here + layers + names.length) % names.length];
  const count = pass.attention(name).heads;
  const next = heads > 0 ? "0" : heads < 0 ? String(count - 1) : at.head;
  set({ at: name, head: at.head === "mean" || at.head === "max" ? next : (at.number + heads + count) % count });
}

export const moving = (pass, at = () => chosen(pass)) => [
  { key: "]", description: "next attention", action: () => move(pass, 1, 0, at()) },
  { key: "[", description: "attention before", action: () => move(pass, -1, 0, at()) },
  { key: ".", description: "next head", action: () => move(pass, 0, 1, at()) },
  { key: ",", description: "head before", action: () => move(pass, 0, -1, at()) },
  { key: "x", description: "switch this head off, and see what changes", action: () => ablate(pass) },
];

/** Open the ablation of the head that is shown. */
export function ablate(pass) {
  const at = chosen(pass);
  set({ screen: "ablate", off: `${at.name}:${at.number}`, at: at.name, head: String(at.number) }, { step: true });
}

/** A weight says where a head attends; only taking it away says whether that matters. */
export function notCause(pass) {
  return h(
    "p",
    { class: "caution" },
    "Weight is not cause: this is where the head attends, not what the output needs. ",
    h("button", { type: "button", class: "link", id: "to-ablation", text: "Switch this head off and see", onclick: () => ablate(pass()) }),
    h("kbd", { text: "x" }),
  );
}
