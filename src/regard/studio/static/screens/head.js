/** Head: one head as lines, as a matrix and as a ranked table, all of the same selection. Long texts open as an overview instead. */

import { called, chosen, headNames, moving, notCause, parts, wholePart } from "../chosen.js";
import { choice, panel, select, slider, toggle } from "../controls.js";
import { fill, h, num, piece, say, weight } from "../dom.js";
import { lines } from "../lines.js";
import { matrix } from "../matrix.js";
import { number, set, state } from "../state.js";
import { shownWeights, strongest } from "../weights.js";

export const head = { id: "head", title: "Head", description: "lines, matrix, table", attends: true };

const LONG = 256; // tokens from which on an overview comes first
const JOINED = [["mean", "mean"], ["max", "max"]];

/** The attention and head that are shown: one head, or all heads of a layer or of a part of the model joined; their mean by default. */
function shownHead(pass) {
  if (parts(pass).includes(state().at)) return wholePart(pass, state().at);
  return state().head === undefined ? { ...chosen(pass), head: "mean" } : chosen(pass);
}

/** @param {{longView?: Function, switches?: string[], offline?: boolean}} how  `longView` draws long texts; the one-file page has none */
export function mount(root, { longView = null, switches = ["merge", "hide", "values"], offline = false } = {}) {
  let now = null;
  const controls = panel(
    select("at", "attention", () => [...parts(now.pass).map((part) => [part, `${part}, all layers`]), ...now.pass.data.attentions.map((one) => [one.name, called(one.name)])], () => now.at.name),
    choice("head", "head", () => [...(now?.at ? headNames(now.at) : []), ...JOINED], () => "mean"),
    slider("least", "threshold", { least: 0, most: 0.9, by: 0.02, otherwise: 0.06, shown: (v) => `${Math.round(100 * v)} %` }),
    slider("each", "top", { least: 1, most: 20, by: 1, otherwise: 5, shown: (v) => `${v} a query` }),
    ...SWITCHES.filter(({ key }) => switches.includes(key)).map(({ key, label, title }) => toggle(key, label, title)),
  );
  const hovered = { row: null, column: null };
  const redraw = () => now?.shown && draw();
  const drawnLines = lines({ pickRow: (row) => pin(row, undefined), pickColumn: (column) => pin(undefined, column), hoverRow: (row) => hover(row, null), hoverColumn: (column) => hover(null, column) });
  const cells = matrix({ pick: pin, hover });
  const table = h("div", { class: "ranked" });
  const pointed = h("b", { class: "number pointed" });
  const notes = h("span", { class: "muted" });
  const trio = h("div", { class: "trio" }, h("section", { class: "card" }, drawnLines.node), h("section", { class: "card middle" }, cells.node, h("div", { class: "under" }, cells.foot, pointed, notes)), h("section", { class: "card" }, table));
  const far = longView?.();
  root.append(h("div", { class: "strip" }, controls.node), trio, ...(far ? [far.node] : []), offline ? h("p", { class: "caution", text: "Weight is not cause: this is where a head attends, not what the output needs." }) : notCause(() => now.pass));

  const at = (list, n) => (n === null || n < 0 ? -1 : list.findIndex((one) => one.tokens.includes(n)));
  /** The row and column that are marked: under the pointer, or pinned in the address. */
  const mark = () => {
    const pinned = { row: at(now.shown.rows, number("q", -1)), column: at(now.shown.columns, number("k", -1)) };
    return { row: hovered.row ?? (pinned.row < 0 ? null : pinned.row), column: hovered.column ?? (pinned.column < 0 ? null : pinned.column) };
  };
  function pin(row, column) {
    const token = (list, n) => (n === undefined ? undefined : list[n].tokens[0]);
    const next = { q: token(now.shown.rows, row), k: token(now.shown.columns, column) };
    if (column === undefined && String(next.q) === state().q) next.q = null;
    set(Object.fromEntries(Object.entries(next).filter(([, value]) => value !== undefined)));
  }
  function hover(row, column) {
    if (hovered.row === row && hovered.column === column) return;
    Object.assign(hovered, { row, column });
    redraw();
  }

  function draw() {
    const { shown } = now;
    const marks = mark();
    const [a, b] = trio.children;
    const tall = Math.max(260, trio.clientHeight - 30);
    drawnLines.draw(shown, marks, { wide: a.clientWidth - 26, tall, least: number("least", 0.06), each: number("each", 5) });
    cells.draw(shown, marks, { wide: b.clientWidth - 34, tall: tall - 40 });
    const pair = marks.row !== null && marks.column !== null;
    pointed.textContent = pair ? `${piece(shown.rows[marks.row].text)} → ${piece(shown.columns[marks.column].text)}  ${weight(shown.values[marks.row * shown.columns.length + marks.column])}` : "";
    notes.textContent = shown.notes.join(" ");
    fill(table, ...ranked(shown, marks, number("each", 5)));
  }

  async function update({ pass }, current) {
    const one = shownHead(pass);
    now = { pass, at: one, shown: null };
    controls.sync();
    const long = far && Math.max(one.queries, one.keys) > LONG;
    trio.hidden = long;
    if (far) far.node.hidden = !long;
    if (long) return far.update(pass, one, current);
    const shown = await shownWeights(pass, one);
    if (!current()) return;
    now.shown = shown;
    draw();
    const { row, column } = mark();
    if (row !== null && column !== null) say(`${piece(shown.rows[row].text)} attends to ${piece(shown.columns[column].text)} with ${num(shown.values[row * shown.columns.length + column])}`);
  }

  function step(down, across) {
    if (!now?.shown) return far.step(down, across);
    const { row, column } = mark();
    const clamp = (n, count) => Math.min(count - 1, Math.max(0, n));
    pin(clamp((row ?? 0) + (row === null ? 0 : down), now.shown.rows.length), clamp((column ?? 0) + (column === null ? 0 : across), now.shown.columns.length));
  }
  const turn = (key) => set({ [key]: state()[key] === "1" ? null : 1 });
  return {
    update,
    keys: ({ pass }) => [
      ...[["ArrowDown", "↓", "query below", 1, 0], ["ArrowUp", "↑", "query above", -1, 0], ["ArrowRight", "→", "key to the right", 0, 1], ["ArrowLeft", "←", "key to the left", 0, -1]].map(([key, shown, description, down, across]) => ({ key, shown, description, action: () => step(down, across) })),
      { key: "Backspace", shown: "⌫", description: "unpin", action: () => set({ q: null, k: null }) },
      ...(offline ? [] : [{ key: "Enter", description: "this weight, number by number", action: () => set({ screen: "arithmetic", q: number("q", 0), k: number("k", 0) }, { step: true }) }]),
      ...moving(pass, () => now.at).filter((one) => !offline || one.key !== "x"),
      { key: "a", description: "mean of all heads, and back", action: () => (now.at.head === "mean" ? set({ head: 0 }) : set({ head: "mean" })) },
      ...SWITCHES.filter(({ key }) => switches.includes(key)).map(({ key, letter, description }) => ({ key: letter, description, action: () => turn(key) })),
    ],
    data: () => (now.shown ? { attention: now.at.name, head: now.at.head, queries: now.shown.rows.map((one) => one.text), keys: now.shown.columns.map((one) => one.text), weights: Array.from(now.shown.values), notes: now.shown.notes } : far.data()),
  };
}

const SWITCHES = [
  { key: "merge", letter: "s", label: "words", description: "merge sub-words", title: "merge sub-words into words (s)" },
  { key: "hide", letter: "h", label: "no specials", description: "hide special tokens", title: "hide <sos>, <eos>, [SEP] (h)" },
  { key: "values", letter: "v", label: "× values", description: "weigh by values", title: "weigh by the length of the value each brings (v)" },
];

/** The strongest weights of the marked query, of the marked key, or of all. */
function ranked(shown, { row, column }, each) {
  const ofKey = row === null && column !== null;
  const found = strongest(shown, { row, column: ofKey ? column : null, count: row === null && !ofKey ? 18 : Math.max(10, each) });
  const most = found[0]?.weight ?? 1;
  const title = row !== null ? `“${piece(shown.rows[row].text)}” attends to` : ofKey ? `“${piece(shown.columns[column].text)}” is attended to by` : "Strongest of all";
  const body = found.map((one, n) => {
    const bar = h("i");
    bar.style.width = `${(100 * one.weight) / most}%`;
    const pair = row === null && !ofKey ? [h("span", { text: piece(shown.rows[one.row].text) }), h("span", { class: "muted", text: " → " })] : [];
    return h("tr", {}, h("td", { class: "number muted", text: n + 1 }), h("td", {}, ...pair, h("span", { text: piece((ofKey ? shown.rows[one.row] : shown.columns[one.column]).text) })), h("td", { class: "wide" }, h("span", { class: "bar" }, bar)), h("td", { class: "number", text: weight(one.weight) }));
  });
  return [h("h2", { text: title }), h("table", { class: "numbers" }, ...body)];
}
