/** A caption: the image as each word attended to it, the words with how sure they were, by all heads together or by one of them. */

import { ablate, called } from "./chosen.js";
import { colour } from "./colour.js";
import { fill, h, percent, piece, say } from "./dom.js";
import { lit, square, tell, thumbnail } from "./image.js";
import { number, set, state } from "./state.js";
import { shownWeights } from "./weights.js";

/** Whose attention is shown: all of them, all of one layer, or one. */
const ways = (pass) => [{ at: null, head: null }, ...pass.data.attentions.filter((one) => one.name.endsWith(".cross")).flatMap((one) => [...(one.heads > 1 ? ["mean"] : []), ...Array.from({ length: one.heads }, (_, n) => String(n))].map((head) => ({ at: one.name, head })))];
const place = (all) => Math.max(0, all.findIndex((way) => way.at === state().at && way.head === (state().head ?? "0")));
const chosen = (pass) => ways(pass)[place(ways(pass))];
const named = ({ at, head }) => (at === null ? "mean of all heads" : `${called(at)}, ${head === "mean" ? "mean of its heads" : `head ${head}`}`);

/** How likely a word is: all of its pieces. */
const likely = (steps, { tokens }) => steps && tokens.reduce((p, n) => p * (steps[n].p ?? (tokens.length > 1 ? 1 : steps[n].top[0].p)), 1);

/** @param {{gallery?: Function, offline?: boolean}} how  `gallery` offers other images; the one-file page has none */
export function seenImage(root, { gallery = null, offline = false } = {}) {
  const line = h("div", { class: "caption-words", role: "listbox", "aria-label": "The caption, word by word" });
  const pointed = h("span", { class: "number muted" });
  const picture = lit((text) => (pointed.textContent = text));
  const way = h("select", { "aria-label": "Attention of", id: "way" });
  const under = h("p", { class: "muted" });
  const off = h("button", { type: "button", class: "link", id: "to-ablation" });
  const shelf = gallery?.(root);
  const sheet = h("div", { class: "contact-sheet" });
  const node = h("div", { class: "seen" },
    h("section", { class: "card" }, picture.node, h("div", { class: "under" }, !offline && h("label", { class: "control" }, h("span", { text: "attention of" }), way), pointed), under,
      h("p", { class: "caution" }, "Weight is not cause: light lies where words attend, not on what they need. ", ...(offline ? [] : [off, h("kbd", { text: "x" })]))),
    h("div", { class: "column" }, h("section", { class: "card" }, h("h2", { text: "Word by word" }), sheet), shelf?.node ?? ""));
  let now = null;
  way.addEventListener("change", () => set(ways(now.pass)[way.value]));
  off.addEventListener("click", () => leave());

  /** To the ablation of the head that is looked through; of many, to the screen where each can be chosen. */
  const leave = () => (/^\d+$/.test(chosen(now.pass).head ?? "") ? ablate(now.pass) : set({ screen: "ablate" }, { step: true }));

  /** A row of cells for each word, as the mean of the heads that are looked through. */
  function weights(pass) {
    const { at, head } = chosen(pass);
    return shownWeights(pass, { name: at ?? "cross", head: head ?? "mean" }, { words: 1 });
  }
  const mapOf = (word) => now.shown.values.subarray(word.number * now.cells, (word.number + 1) * now.cells);

  async function update(pass, current) {
    const [image, found] = await Promise.all([pass.numbers("image", { run: pass.asked.run, name: pass.asked.text }), weights(pass)]);
    if (!current()) return;
    const words = found.rows.map((row, number) => ({ text: row.text, p: likely(pass.data.steps, row), rows: row.tokens, special: row.special, number }));
    now = { pass, shown: found, words, cells: found.columns.length, grid: square(Math.round(Math.sqrt(found.columns.length))) };
    const all = ways(pass);
    fill(way, ...all.map((one, n) => h("option", { value: n, text: named(one) })));
    way.value = String(place(all));
    off.textContent = /^\d+$/.test(chosen(pass).head ?? "") ? "Switch this head off and see" : "Switch heads off and see";
    const at = now.words.findIndex((word) => word.rows.includes(number("q", -1)));
    fill(line, ...now.words.map((word, n) => button(word, n === at)));
    fill(sheet, ...now.words.map((word, n) => h("button", { type: "button", "aria-pressed": String(n === at), onclick: () => set({ q: n === at ? null : word.rows[0] }), onmouseenter: () => show(n), onmouseleave: () => show(at) }, thumbnail(image, mapOf(word), now.grid), h("span", { text: piece(word.text) }))));
    now.image = image;
    show(at);
    if (at >= 0) say(`${now.words[at].text}, ${percent(now.words[at].p)}; ${tell(mapOf(now.words[at]), now.grid)}`);
  }

  /** The image as the word `at` attended to it, or as it is. */
  function show(at) {
    const map = at < 0 ? null : mapOf(now.words[at]);
    picture.draw(now.image, map, now.grid, Math.max(240, Math.min(560, window.innerHeight - 390, node.clientWidth - 40)));
    const label = shelf?.label();
    under.textContent = map ? `${piece(now.words[at].text)}: ${tell(map, now.grid)}; the veil is off at its peak and thickest at 0` : `${label ? `${label}, ` : ""}read as ${now.grid.rows} × ${now.grid.columns} cells${now.pass.data.averaged ? `, ${now.pass.data.averaged}` : ""}; choose a word to see what it attended to`;
  }

  function button(word, on) {
    const made = h("button", { type: "button", role: "option", "aria-selected": String(on), class: word.special ? "special" : "", onclick: () => set({ q: on ? null : word.rows[0] }) }, h("b", { text: piece(word.text) }), word.p !== null && h("span", { class: "number", text: percent(word.p) }));
    made.style.setProperty("--sure", colour(word.p ?? 0));
    return made;
  }

  const move = (by) => {
    if (!now) return;
    const at = now.words.findIndex((word) => word.rows.includes(number("q", -1)));
    set({ q: now.words[Math.max(0, Math.min(now.words.length - 1, at < 0 && by < 0 ? now.words.length - 1 : at + by))].rows[0] });
  };
  const turn = (by) => {
    const all = ways(now.pass);
    set(all[(place(all) + by + all.length) % all.length]);
  };
  return {
    node,
    line,
    update,
    shelf,
    keys: () => [
      { key: "ArrowRight", shown: "→", description: "next word", action: () => move(1) },
      { key: "ArrowLeft", shown: "←", description: "word before", action: () => move(-1) },
      { key: "Backspace", shown: "⌫", description: "the image as it is", action: () => set({ q: null }) },
      ...(now && !offline ? [{ key: ".", description: "through the next head", action: () => turn(1) }, { key: ",", description: "through the head before", action: () => turn(-1) }, { key: "x", description: "switch heads off, and see what changes", action: leave }] : []),
      ...(shelf?.keys ?? []),
    ],
    data: () => now && { way: named(chosen(now.pass)), side: now.grid.rows, words: now.words.map(({ text, p }, n) => ({ text, p, map: Array.from(mapOf(now.words[n])) })) },
  };
}
