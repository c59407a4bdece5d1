/** Beam: the search as a tree, with what it dropped; a node says what it attended to, and the search can go on from any of them. */

import { ask } from "../api.js";
import { ablate, notCause } from "../chosen.js";
import { choice, panel } from "../controls.js";
import { fill, h, num, percent, piece, s, say } from "../dom.js";
import { number, set, state } from "../state.js";
import { treeLayout } from "../tree.js";

export const beam = { id: "beam", title: "Beam", description: "the search as a tree", mount };

const forcedNow = () => (state().force ? state().force.split(",").map(Number) : []);

function mount(root) {
  const controls = panel(choice("beam", "beam", () => ["1", "2", "3", "4", "6", "8"].map((n) => [n, n]), () => "4"));
  const word = h("input", { type: "text", id: "force-word", placeholder: "a word to force next", "aria-label": "Force a word", size: 18 });
  const clear = h("button", { type: "button", class: "plain", text: "Free search", onclick: () => set({ force: null, node: null, word: null }) });
  const info = h("span", { class: "muted" });
  const drawing = s("svg", { class: "tree", role: "img", "aria-label": "The search as a tree" });
  const box = h("section", { class: "card tree-box", tabindex: 0 }, drawing);
  const side = h("aside", { class: "card detail" });
  word.addEventListener("keydown", (event) => {
    if (event.key === "Enter") set({ word: word.value.trim() || null, node: null });
  });
  root.append(h("div", { class: "strip" }, controls.node, word, clear, info), h("div", { class: "atlas-main" }, box, side));
  let now = null;

  const nodes = () => now.tree.steps.flat();
  const key = (node) => `${node.step}.${node.rank}`;
  /** The marked node: as the address says, or the end of what was found best. */
  const marked = () => nodes().find((node) => key(node) === state().node) ?? nodes().filter((node) => node.best).at(-1) ?? nodes()[0];
  const path = (node) => {
    const way = [];
    for (let at = node; at; at = at.step ? now.tree.steps[at.step - 1].find((one) => one.rank === at.parent) : null) way.unshift(at);
    return way;
  };

  async function update({ pass }, current) {
    controls.sync();
    const body = { run: pass.asked.run, text: pass.asked.text, beam: number("beam", 4), forced: forcedNow(), ...(state().word ? { word: state().word } : {}) };
    const tree = await pass.of((_, __, sent) => ask("beam", {}, sent), "beam", {}, body);
    if (!current()) return;
    now = { pass, tree };
    clear.hidden = !tree.forced;
    if (document.activeElement !== word) word.value = state().word ?? "";
    const counts = tree.steps.flat().reduce((sum, node) => ({ ...sum, [node.fate]: (sum[node.fate] ?? 0) + 1 }), {});
    info.textContent = `${counts.alive ?? 0} lived on, ${counts.finished ?? 0} ended, ${counts.pruned ?? 0} were dropped${tree.forced ? `; ${tree.forced} forced` : ""}`;
    await draw(current);
  }

  async function draw(current) {
    const node = marked();
    if (!node) return fill(side, h("p", { text: "Nothing could be written." }));
    const way = path(node);
    const plan = treeLayout(now.tree, Math.max(300, box.clientHeight - 40));
    drawing.setAttribute("width", String(plan.wide));
    drawing.setAttribute("height", String(plan.tall));
    fill(drawing, ...plan.edges.map((edge) => s("path", { d: edge.curve, class: `edge ${edge.to.fate}${edge.to.best ? " best" : ""}` })), ...plan.nodes.map((one) => drawn(one, now.tree, node, way)));
    drawing.querySelector(".node.at")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    const body = { run: now.pass.asked.run, text: now.pass.asked.text, tokens: way.map((one) => one.token) };
    fill(side, ...detail(now.tree, node, way));
    say(`${piece(node.piece)}, ${node.fate}, log-probability ${num(node.logprob)}, total ${num(node.total)}`);
    if (now.pass.data.why) return fill(side, ...detail(now.tree, node, way), h("p", { class: "muted", text: now.pass.data.why }));
    const seen = await now.pass.of((_, __, sent) => ask("alignment", {}, sent), "alignment", {}, body);
    if (current()) fill(side, ...detail(now.tree, node, way), ...looked(seen), notCause(() => now.pass));
  }

  function drawn({ node, x, y, wide }, tree, at, way) {
    const on = way.includes(node);
    const classes = `node ${node.fate}${node.best ? " best" : ""}${on ? " on" : ""}${node === at ? " at" : ""}${node.step < tree.forced ? " forced" : ""}`;
    return s("g", { class: classes, transform: `translate(${x} ${y})`, "data-node": key(node), onclick: () => set({ node: key(node) }) },
      s("rect", { x: 0, y: -10, width: wide, height: 20, rx: 6 }),
      s("text", { x: 7, y: 0, "dominant-baseline": "central", "font-size": 12, text: piece(node.piece) }),
      s("text", { x: wide - 6, y: 0, "text-anchor": "end", "dominant-baseline": "central", "font-size": 10, class: "small", text: node.fate === "finished" ? num(node.score, 2) : percent(Math.exp(node.logprob)) }));
  }

  function step(down, across) {
    const at = marked();
    const column = now.tree.steps[at.step + across];
    if (across > 0) return go(column?.find((node) => node.parent === at.rank) ?? column?.[0]);
    if (across < 0) return go(column?.find((node) => node.rank === at.parent));
    const here = now.tree.steps[at.step];
    return go(here[(here.indexOf(at) + down + here.length) % here.length]);
  }
  const go = (node) => node && set({ node: key(node) });
  const force = () => set({ force: path(marked()).filter((node) => !node.ends).map((node) => node.token).join(","), node: null, word: null }, { step: true });
  return {
    update,
    keys: ({ pass }) => [
      ...(pass.data.why ? [] : [{ key: "x", description: "switch a head off, and see what changes", action: () => ablate(pass) }]),
      { key: "ArrowRight", shown: "→", description: "what it went on with", action: () => step(0, 1) },
      { key: "ArrowLeft", shown: "←", description: "what it came from", action: () => step(0, -1) },
      { key: "ArrowDown", shown: "↓", description: "less likely", action: () => step(1, 0) },
      { key: "ArrowUp", shown: "↑", description: "likelier", action: () => step(-1, 0) },
      { key: "Enter", description: "force this branch, and search on from it", action: force },
      { key: "Backspace", shown: "⌫", description: "free search again", action: () => clear.click() },
      { key: "w", description: "type a word to force", action: () => word.focus() },
    ],
    data: () => now.tree,
  };

  function detail(tree, node, way) {
    const fates = { alive: "lived on", finished: "ended here", pruned: "was dropped" };
    const rows = [["of its step", `${node.rank + 1} of ${tree.steps[node.step].length}`], ["probability", percent(Math.exp(node.logprob))], ["log-probability", num(node.logprob)], ["of the whole way", num(node.total)], [`÷ length (α = ${tree.alpha})`, num(node.score)]];
    const ends = tree.hypotheses.slice(0, 4).map((one, n) => h("tr", { class: n ? "" : "chosen" }, h("td", { class: "number", text: num(one.score, 2) }), h("td", { text: one.text })));
    return [
      h("h2", {}, h("b", { text: way.map((one) => piece(one.piece)).join(" ") })),
      h("p", {}, h("span", { class: `pill ${node.fate === "pruned" ? "bad" : "good"}`, text: fates[node.fate] })),
      h("table", { class: "numbers" }, ...rows.map(([name, value]) => h("tr", {}, h("td", { text: name }), h("td", { class: "number", text: value })))),
      h("button", { type: "button", class: "primary", id: "force", text: "Search on from here", onclick: force }, h("kbd", { text: "Enter" })),
      h("h2", { text: "What the search found" }),
      h("table", { class: "numbers" }, ...ends),
    ];
  }
}

/** What the last layer attended to when this token was written. */
function looked({ tokens, weights }) {
  const order = tokens.map((token, n) => ({ token, n, weight: weights[n] })).sort((a, b) => b.weight - a.weight).slice(0, 8).sort((a, b) => a.n - b.n);
  const most = Math.max(...weights);
  const rows = order.map(({ token, weight }) => {
    const bar = h("i");
    bar.style.width = `${(100 * weight) / most}%`;
    return h("tr", {}, h("td", { text: piece(token) }), h("td", { class: "wide" }, h("span", { class: "bar" }, bar)), h("td", { class: "number", text: num(weight, 2) }));
  });
  return [h("h2", { text: "What it attended to, mean of the last layer" }), h("table", { class: "numbers" }, ...rows)];
}
