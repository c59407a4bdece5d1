/** Run: what the model says to a text, token by token, how sure it is, and proof that what is drawn elsewhere is what ran. */

import { ask } from "../api.js";
import { colour, onColour } from "../colour.js";
import { fill, h, num, percent, piece, say } from "../dom.js";
import { gallery } from "../gallery.js";
import { patches } from "../patches.js";
import { questions } from "../questions.js";
import { seenImage } from "../seen.js";
import { series } from "../series.js";
import { number, set, state } from "../state.js";

export const run = { id: "run", title: "Run", description: "what it says, step by step", mount, before: true };

const VIEWS = { captions: seenImage, questions };
const SHOWN = 240; // steps drawn; more are counted, not drawn
const LONG = 512; // tokens from which on an answer is asked for only when somebody wants it

function mount(root) {
  const answer = h("div", { class: "answer" });
  const badge = h("p", { class: "badge" });
  const reads = h("section", { class: "card reads" });
  const grid = h("div", { class: "steps", role: "listbox", "aria-label": "Output, step by step", tabindex: 0 });
  const about = h("h2", {});
  const top = h("section", { class: "card top" }, answer, badge);
  const below = h("section", { class: "card" }, about, grid);
  root.append(top, reads, below);
  let cards = [];
  let image = null; // of a model that reads one

  function mark() {
    const at = number("q", -1);
    cards.forEach((one, n) => one.setAttribute("aria-selected", String(n === at)));
    const step = cards[at];
    if (step) say(step.getAttribute("aria-label"));
  }

  async function update({ pass, card }, current) {
    if (!pass) {
      below.hidden = badge.hidden = true;
      return image.update(null, current, card);
    }
    const { data } = pass;
    if (card.series && !image) replace(series(root));
    reads.hidden = false;
    below.hidden = ["classes", "pixels"].includes(card.images?.kind) || Boolean(card.series);
    if (card.images || card.series) await image.update(pass, current, card);
    else if (data.nested) fill(reads, ...shaded(await pass.ask("document")));
    else fill(reads, ...Object.entries(data.sides).map(([stack, side]) => reading(stack, side)));
    if (!current()) return;
    fill(badge, ...badgeOf(data));
    const info = data.title.startsWith(`${pass.asked.text} → `) ? data.title.slice(pass.asked.text.length + 3) : null;
    say(info ?? data.title);
    about.textContent = headline(data, card.task);
    cards = data.steps.slice(0, SHOWN).map((step, n) => stepCard(step, data.outputs?.tokens[n] ?? null, n));
    fill(grid, ...cards, data.steps.length > SHOWN && h("p", { class: "muted", text: `and ${data.steps.length - SHOWN} more` }));
    mark();
    if (info !== null || image) return fill(answer, h("p", { class: "says", text: info }));
    if (Math.max(...Object.values(data.sides).map((side) => side.tokens.length)) > LONG && state().say !== "1") {
      return fill(answer, h("button", { type: "button", class: "link", text: "ask what it says to this long text", onclick: () => set({ say: 1 }) }));
    }
    fill(answer, h("p", { class: "says muted", text: "…" }));
    const found = await ask("answer", {}, { run: pass.asked.run, text: pass.asked.text, ...(pass.asked.step ? { step: pass.asked.step } : {}) });
    if (current()) fill(answer, ...answerOf(found.answer, card.task, pass.asked.target));
  }

  function replace(view) {
    image = view;
    reads.replaceWith(image.node);
    answer.replaceWith(image.line);
  }

  /** Of a model that cannot be looked into: what it says, and why there is no more. */
  function alone(info, why) {
    cards = [];
    fill(answer, h("p", { class: "says", text: info }));
    fill(badge, h("span", { class: "muted", text: why[0].toUpperCase() + why.slice(1) }));
    reads.hidden = below.hidden = true;
    say(info);
  }

  /** The images are there to be chosen from, even where the one that was asked for is not. */
  async function before(card, current) {
    if (!image) {
      replace((VIEWS[card.images.kind] ?? patches)(root, { gallery }));
    }
    await image.shelf.update(card, current);
  }

  const move = (by) => {
    if (!cards.length) return;
    const at = Math.min(cards.length - 1, Math.max(0, number("q", by > 0 ? -1 : cards.length) + by));
    set({ q: at });
    cards[at].scrollIntoView({ block: "nearest" });
  };
  return {
    update,
    alone,
    before,
    keys: () => [
      ...(image?.keys() ?? []),
      ...(below.hidden ? [] : [{ key: "ArrowRight", shown: "→", description: "next step", action: () => move(1) },
      { key: "ArrowLeft", shown: "←", description: "step before", action: () => move(-1) }]),
      { key: "Enter", description: "what this step looked at", action: () => set({ screen: "head", ...(image?.query?.() ?? (image ? { k: null } : {})) }, { step: true }) },
    ],
    data: ({ pass }) => (image ? { ...pass?.data, seen: image.data() } : pass ? pass.data : { answer: answer.textContent, why: badge.textContent }),
  };
}

function reading(stack, side) {
  const tokens = side.tokens.slice(0, SHOWN).map((token, n) =>
    h("span", { class: `token${side.special[n] ? " special" : ""}${n && side.words[n] === side.words[n - 1] ? " joined" : ""}`, title: `${stack} ${n}` }, piece(token)),
  );
  const more = side.tokens.length - tokens.length;
  return h("div", { class: "reading" }, h("h2", { text: `${stack} reads ${side.tokens.length.toLocaleString("en")} tokens` }), h("div", { class: "tokens" }, ...tokens, more > 0 && h("span", { class: "muted", text: ` and ${more.toLocaleString("en")} more` })));
}

/** A text that is read sentence by sentence: each word as dark as its weight, in its sentence and with it. */
function shaded({ sentences, note }) {
  const most = Math.max(1e-9, ...sentences.flatMap((one) => one.weights.map((weight) => weight * one.weight)));
  const word = (one, n) => {
    const shade = (one.weights[n] * one.weight) / most;
    const made = h("span", { class: "token", title: `${num(one.weights[n])} of its sentence, which has ${num(one.weight)}`, text: one.words[n] });
    made.style.background = colour(shade);
    made.style.color = onColour(shade);
    return made;
  };
  const rows = sentences.map((one) => h("div", { class: "sentence" }, h("span", { class: "number muted", text: num(one.weight, 2) }), h("div", { class: "tokens" }, ...one.words.map((_, n) => word(one, n)))));
  return [h("div", { class: "reading" }, h("h2", {}, "What it attended to", h("span", { class: "muted", text: " a sentence's weight, and its words shaded by theirs times it; weight is not cause" })), ...rows, note && h("p", { class: "muted", text: note }))];
}

function badgeOf(data) {
  if (data.why) return [h("span", { class: "muted", text: `${data.why[0].toUpperCase()}${data.why.slice(1)}` })];
  const { holds, largest, rows } = data.faith;
  if (!rows) return [h("span", { class: "muted", text: "the weights are those that the model handed out itself; there is no kernel's output to check them against" })];
  const mark = h("span", { class: holds ? "pill good" : "pill bad", id: "faith", text: holds ? "✓ weights are what ran" : "✗ weights are not what ran" });
  const info = `rebuilt weights × values against the kernel's own output, ${rows} rows: largest difference ${num(largest)} of its largest number`;
  return [mark, h("span", { class: "muted", text: info }), h("span", { class: "muted", text: `· ${Math.round(1000 * data.seconds)} ms` })];
}

function headline(data, task) {
  const scored = data.steps.filter((step) => step.p !== null).length;
  const loss = data.nll === null ? "" : `; ${num(data.nll)} nats a token, perplexity ${num(Math.exp(data.nll), 2)}`;
  const what = data.outputs ? "What each step would say, likeliest first" : task === "classification" ? "How likely each label is" : "What it says of the whole text";
  return `${what}${scored ? ` — scored on ${scored}${loss}` : ""}`;
}

/** One position: what stands there and how likely it was, above what else could have. */
function stepCard(step, token, n) {
  const shown = step.target ?? token;
  const sure = step.p ?? step.top[0].p;
  const rows = step.top.map((one) =>
    h("div", { class: `option${one.choice === step.target ? " chosen" : ""}` }, h("span", { class: "name", text: piece(one.choice) }), bar(one.p), h("span", { class: "number", text: percent(one.p) })),
  );
  const info = `step ${n}: ${shown ?? ""} ${percent(sure)}${step.rank > 1 ? `, rank ${step.rank}` : ""}`;
  const card = h("div", { class: "step", role: "option", "aria-label": info, onclick: () => set({ q: n }), ondblclick: () => set({ q: n, screen: "head" }, { step: true }) },
    h("div", { class: "head" }, h("b", { text: piece(shown ?? "") }), h("span", { class: "number", text: step.rank > 1 ? `rank ${step.rank}` : percent(sure) })),
    ...rows);
  card.style.setProperty("--sure", colour(sure));
  return card;
}

function bar(p) {
  const inner = h("i");
  inner.style.width = `${Math.max(1, 100 * p)}%`;
  return h("span", { class: "bar" }, inner);
}

/** What it answers; a language model's continuation can be given to it and inspected as well. */
function answerOf(info, task, target) {
  const says = h("p", { class: "says" });
  if (task !== "language_model") return [Object.assign(says, { textContent: info })];
  says.append(h("span", { class: "muted", text: state().text }), h("span", { text: info }));
  const go = h("button", { type: "button", class: "link", text: target ? "back to the text alone" : "inspect this continuation too", onclick: () => set({ target: target ? null : info.trim() }) });
  return [says, go];
}
