/** A question about an image: the answer, and where the model attended, for each word of the question or for the answer. */

import { ask, numbers } from "./api.js";
import { fill, h, percent, piece, say } from "./dom.js";
import { lit, peak, small, called as place, veiledSmall } from "./image.js";
import { number, set, state } from "./state.js";

const SMALL = 84; // pixels of a thumbnail

export function questions(root, { gallery }) {
  const line = h("div", { class: "verdict" });
  const pointed = h("span", { class: "number muted", id: "pointed" });
  const picture = lit((text) => (pointed.textContent = text));
  const own = h("select", { id: "question", "aria-label": "A question of the run's own", onchange: () => set({ target: own.value, q: null }) });
  const words = h("div", { class: "caption-words", role: "listbox", "aria-label": "The question, word by word" });
  const under = h("p", { id: "told" });
  const answers = h("div", { class: "classes" });
  const sheet = h("div", { class: "heads-sheet" });
  const shelf = gallery(root);
  const node = h("div", { class: "seen" },
    h("section", { class: "card" }, words, picture.node, h("div", { class: "under" }, pointed), under, h("p", { class: "caution", text: "Weight is not cause: light lies where the model attends, not on what it needs." })),
    h("div", { class: "column" }, h("section", { class: "card" }, h("h2", { text: "Answers" }), answers), h("section", { class: "card" }, h("h2", {}, "Ask", h("span", { class: "muted", text: " one of these, or type a question above" })), own), h("section", { class: "card" }, h("h2", { text: "Word by word" }), sheet), shelf.node));
  let now = null;

  const map = (n) => Float32Array.from(now.found.maps[n]);
  const at = () => Math.min(now.found.words.length - 1, now.found.words.length === 1 ? 0 : number("q", -1));

  async function update(pass, current, card) {
    const question = state().target || card.images.questions[0];
    if (!state().target) return set({ target: question });
    const asked = { run: card.name, image: state().text, question };
    const [pixels, found] = await Promise.all([numbers("image", { run: card.name, name: state().text }), ask("heat", {}, asked)]);
    if (!current()) return;
    now = { pixels, found, base: small(pixels, SMALL) };
    if (!own.options.length) fill(own, ...card.images.questions.map((one) => h("option", { value: one, text: one })));
    own.value = question;
    const [best] = found.answers;
    fill(line, h("p", { class: "says" }, h("b", { text: best.answer }), h("span", { class: "muted", text: ` ${percent(best.p)}` })), h("span", { class: "muted", text: question }));
    fill(answers, ...found.answers.map((one) => {
      const inner = h("i");
      inner.style.width = `${Math.max(1, 100 * one.p)}%`;
      return h("button", { type: "button", disabled: true }, h("span", { class: "name", text: one.answer }), h("span", { class: "bar" }, inner), h("span", { class: "number", text: percent(one.p) }));
    }));
    const go = (n) => set({ q: n === at() ? null : n });
    fill(words, ...found.words.map((word, n) => h("button", { type: "button", role: "option", "aria-selected": String(n === at()), onclick: () => go(n) }, h("b", { text: piece(word) }))));
    fill(sheet, ...found.words.map((word, n) => h("button", { type: "button", "aria-pressed": String(n === at()), onclick: () => go(n) }, veiledSmall(now.base, map(n), found), h("span", { text: piece(word) }))));
    draw();
  }

  function draw() {
    const { found } = now;
    const shown = at() < 0 ? null : map(at());
    const room = Math.max(140, Math.min(520, Math.max(220, window.innerHeight - 420), node.firstChild.clientWidth - 30));
    picture.draw(now.pixels, shown, found, room);
    under.textContent = shown ? `${found.words[at()]}: attends most to ${place(peak(shown), found)} of ${found.rows} × ${found.columns}; ${found.averaged}.` : "Choose a word of the question to see where the model attended as it read it.";
    say(`${found.answers[0].answer}, ${percent(found.answers[0].p)}. ${under.textContent}`);
  }

  const move = (by) => now && set({ q: Math.max(0, Math.min(now.found.words.length - 1, number("q", by > 0 ? -1 : now.found.words.length) + by)) });
  return {
    node,
    line,
    update,
    shelf,
    keys: () => [
      { key: "ArrowRight", shown: "→", description: "next word", action: () => move(1) },
      { key: "ArrowLeft", shown: "←", description: "word before", action: () => move(-1) },
      { key: "Backspace", shown: "⌫", description: "the image as it is", action: () => set({ q: null }) },
      ...shelf.keys,
    ],
    data: () => now && { question: state().target, ...now.found },
  };
}
