/** Run: what the model says to a text, token by token, how sure it is, and proof that what is drawn elsewhere is what ran. */

import { ask } from "../api.js";
import { colour } from "../colour.js";
import { fill, h, num, percent, piece, say } from "../dom.js";
import { number, set, state } from "../state.js";

export const run = { id: "run", title: "Run", tells: "what it says, step by step", mount };

const SHOWN = 240; // steps drawn; more are told, not drawn
const LONG = 512; // tokens from which on an answer is asked for only when somebody wants it

function mount(root) {
  const answer = h("div", { class: "answer" });
  const badge = h("p", { class: "badge" });
  const reads = h("section", { class: "card reads" });
  const grid = h("div", { class: "steps", role: "listbox", "aria-label": "Output, step by step", tabindex: 0 });
  const about = h("h2", {});
  root.append(h("section", { class: "card top" }, answer, badge), reads, h("section", { class: "card" }, about, grid));
  let cards = [];

  function mark() {
    const at = number("q", -1);
    cards.forEach((one, n) => one.setAttribute("aria-selected", String(n === at)));
    const step = cards[at];
    if (step) say(step.getAttribute("aria-label"));
  }

  async function update({ look, card }, current) {
    const { data } = look;
    fill(reads, ...Object.entries(data.sides).map(([stack, side]) => reading(stack, side)));
    fill(badge, ...badgeOf(data));
    const told = data.title.startsWith(`${look.asked.text} → `) ? data.title.slice(look.asked.text.length + 3) : null;
    say(told ?? data.title);
    about.textContent = headline(data, card.task);
    cards = data.steps.slice(0, SHOWN).map((step, n) => stepCard(step, data.outputs?.tokens[n] ?? null, n));
    fill(grid, ...cards, data.steps.length > SHOWN && h("p", { class: "muted", text: `and ${data.steps.length - SHOWN} more` }));
    mark();
    if (told !== null) return fill(answer, h("p", { class: "says", text: told }));
    if (Math.max(...Object.values(data.sides).map((side) => side.tokens.length)) > LONG && state().say !== "1") {
      return fill(answer, h("button", { type: "button", class: "link", text: "ask what it says to this long text", onclick: () => set({ say: 1 }) }));
    }
    fill(answer, h("p", { class: "says muted", text: "…" }));
    const found = await ask("answer", {}, { run: look.asked.run, text: look.asked.text, ...(look.asked.step ? { step: look.asked.step } : {}) });
    if (current()) fill(answer, ...answerOf(found.answer, card.task, look.asked.target));
  }

  const move = (by) => {
    const at = Math.min(cards.length - 1, Math.max(0, number("q", by > 0 ? -1 : cards.length) + by));
    set({ q: at });
    cards[at].scrollIntoView({ block: "nearest" });
  };
  return {
    update,
    keys: () => [
      { key: "ArrowRight", shown: "→", tells: "next step", does: () => move(1) },
      { key: "ArrowLeft", shown: "←", tells: "step before", does: () => move(-1) },
      { key: "Enter", tells: "what this step looked at", does: () => set({ screen: "head" }, { step: true }) },
    ],
    data: ({ look }) => look.data,
  };
}

function reading(stack, side) {
  const tokens = side.tokens.slice(0, SHOWN).map((token, n) =>
    h("span", { class: `token${side.special[n] ? " special" : ""}${n && side.words[n] === side.words[n - 1] ? " joined" : ""}`, title: `${stack} ${n}` }, piece(token)),
  );
  const more = side.tokens.length - tokens.length;
  return h("div", { class: "reading" }, h("h2", { text: `${stack} reads ${side.tokens.length.toLocaleString("en")} tokens` }), h("div", { class: "tokens" }, ...tokens, more > 0 && h("span", { class: "muted", text: ` and ${more.toLocaleString("en")} more` })));
}

function badgeOf(data) {
  const { holds, largest, rows } = data.faith;
  const mark = h("span", { class: holds ? "pill good" : "pill bad", id: "faith", text: holds ? "✓ weights are what ran" : "✗ weights are not what ran" });
  const told = `rebuilt weights × values against the kernel's own output, ${rows} rows: largest difference ${num(largest)} of its largest number`;
  return [mark, h("span", { class: "muted", text: told }), h("span", { class: "muted", text: `· ${Math.round(1000 * data.seconds)} ms` })];
}

function headline(data, task) {
  const scored = data.steps.filter((step) => step.p !== null).length;
  const loss = data.nll === null ? "" : `; ${num(data.nll)} nats a token, perplexity ${num(Math.exp(data.nll), 2)}`;
  const what = data.outputs ? "What each step would say, likeliest first" : task === "classify" ? "How likely each label is" : "What it says of the whole text";
  return `${what}${scored ? ` — scored on ${scored}${loss}` : ""}`;
}

/** One position: what stands there and how likely it was, above what else could have. */
function stepCard(step, token, n) {
  const shown = step.target ?? token;
  const sure = step.p ?? step.top[0].p;
  const rows = step.top.map((one) =>
    h("div", { class: `option${one.choice === step.target ? " chosen" : ""}` }, h("span", { class: "name", text: piece(one.choice) }), bar(one.p), h("span", { class: "number", text: percent(one.p) })),
  );
  const told = `step ${n}: ${shown ?? ""} ${percent(sure)}${step.rank > 1 ? `, rank ${step.rank}` : ""}`;
  const card = h("div", { class: "step", role: "option", "aria-label": told, onclick: () => set({ q: n }), ondblclick: () => set({ q: n, screen: "head" }, { step: true }) },
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

/** What it answers; a language model's continuation can be laid before it, to be looked into as well. */
function answerOf(told, task, target) {
  const says = h("p", { class: "says" });
  if (task !== "write") return [Object.assign(says, { textContent: told })];
  says.append(h("span", { class: "muted", text: state().text }), h("span", { text: told }));
  const go = h("button", { type: "button", class: "link", text: target ? "back to the text alone" : "look into this continuation too", onclick: () => set({ target: target ? null : told.trim() }) });
  return [says, go];
}
