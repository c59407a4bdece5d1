/** Ablate: a switch for every head; what is said, how surely, and how much is lost without the ones that are off. */

import { called } from "../chosen.js";
import { colour, onColour } from "../colour.js";
import { curves } from "../curves.js";
import { fill, h, num, percent, piece, say } from "../dom.js";
import { largest } from "../heat.js";
import { set, state } from "../state.js";

export const ablate = { id: "ablate", title: "Ablate", description: "switch heads off", mount };

const signed = (value) => (Math.abs(value) < 5e-4 ? "0.000" : value.toFixed(3).replace("-", "−"));

/** "decoder.0.self:1,3;…" to the heads that are off, and back. */
const read = () => Object.fromEntries((state().off ?? "").split(";").filter(Boolean).map((part) => [part.split(":")[0], part.split(":")[1].split(",").map(Number)]));
const write = (off) => Object.entries(off).filter(([, heads]) => heads.length).map(([name, heads]) => `${name}:${[...heads].sort((a, b) => a - b).join(",")}`).join(";") || null;

function flip(name, head) {
  const off = read();
  const now = off[name] ?? [];
  set({ off: write({ ...off, [name]: now.includes(head) ? now.filter((one) => one !== head) : [...now, head] }), at: name, head });
}

function mount(root) {
  const grid = h("div", { class: "switches", role: "group", "aria-label": "Heads" });
  const info = h("p", { class: "muted" });
  const effect = h("section", { class: "card effect" });
  const chart = h("section", { class: "card" });
  const bare = h("button", { type: "button", class: "plain", text: "All on", onclick: () => set({ off: null }) });
  root.append(h("div", { class: "ablate-main" }, h("section", { class: "card" }, h("div", { class: "strip" }, h("h2", { text: "Every head, and how much the loss rises without it alone" }), bare), grid, info, chart), effect));
  let now = null;

  async function update({ pass }, current) {
    const off = read();
    const any = Object.keys(off).length > 0;
    const [{ rise, changes }, kept] = await Promise.all([pass.ask("ablations"), pass.ask("kept")]);
    const after = any ? await pass.ask("ablate", {}, { off }) : null;
    if (!current()) return;
    now = { pass, off, rise, changes, kept, after };
    const most = largest(Object.values(rise).flat().map(Math.abs), 1e-6);
    const focus = document.activeElement?.dataset?.head;
    fill(grid, ...Object.keys(rise).map((name) => row({ name }, rise[name], changes[name], off[name] ?? [], most)));
    if (focus) grid.querySelector(`[data-head="${CSS.escape(focus)}"]`)?.focus();
    info.textContent = `blue: worse without it, orange: better; to ${num(most)} nats a token. One copy of the text for each head, all in a few passes.`;
    fill(effect, ...effects(pass.data, after, off));
    fill(chart, h("h2", {}, "Fewer and fewer heads", h("span", { class: "muted", text: " those missed least on this text go first; loss on this text alone" })), curves({ loss: kept.points.map(([heads, loss]) => [heads, loss]).reverse() }, { wide: chart.clientWidth - 30, tall: 150, x: "heads kept", marks: [] }));
    if (after) say(`without ${count(off)}: loss ${num(pass.data.nll)} to ${num(after.nll)}; ${after.answer}`);
  }

  function step(down, across) {
    const all = [...grid.querySelectorAll("button")];
    const at = all.indexOf(document.activeElement);
    if (at < 0) return all[0]?.focus();
    const line = all[at].parentElement;
    const column = [...line.children].indexOf(all[at]);
    const target = across ? all[at + across] : (down > 0 ? line.nextElementSibling : line.previousElementSibling)?.children[column];
    if (target instanceof HTMLButtonElement) target.focus();
  }
  return {
    update,
    keys: () => [
      { key: "ArrowRight", shown: "→", description: "next head", action: () => step(0, 1) },
      { key: "ArrowLeft", shown: "←", description: "head before", action: () => step(0, -1) },
      { key: "ArrowDown", shown: "↓", description: "layer below", action: () => step(1, 0) },
      { key: "ArrowUp", shown: "↑", description: "layer above", action: () => step(-1, 0) },
      { key: " ", shown: "Space", description: "switch the head off or on", action: () => step(0, 1) },
      { key: "Backspace", shown: "⌫", description: "all on", action: () => bare.click() },
      { key: "u", description: "off the one that is missed most", action: () => worst() },
    ],
    data: () => ({ off: now.off, rise: now.rise, changes: now.changes, kept: now.kept, before: { nll: now.pass.data.nll, steps: now.pass.data.steps }, after: now.after }),
  };

  function worst() {
    const all = Object.entries(now.rise).flatMap(([name, values]) => values.map((value, head) => ({ name, head, value })));
    const next = all.filter((one) => !(now.off[one.name] ?? []).includes(one.head)).sort((a, b) => b.value - a.value)[0];
    if (next) flip(next.name, next.head);
  }
}

const count = (off) => Object.entries(off).map(([name, heads]) => `${called(name)} ${heads.join(", ")}`).join("; ");

function row(one, rises, changes, off, most) {
  const cells = rises.map((rise, head) => {
    const share = rise / most;
    const gone = off.includes(head);
    const said = changes[head].map((change) => `${piece(change.before)} → ${piece(change.after)}`).slice(0, 3).join(", ");
    const button = h("button", { type: "button", class: `switch${gone ? " off" : ""}`, role: "switch", "aria-checked": String(!gone), "data-head": `${one.name}:${head}`, "aria-label": `${called(one.name)} head ${head}, loss ${num(rise)} more without it`, title: `head ${head}: ${num(rise)} more without it${said ? `; then ${said}` : ""}`, onclick: () => flip(one.name, head) }, signed(rise));
    button.style.background = gone ? "" : colour(Math.sign(share) * Math.sqrt(Math.abs(share)), "signed");
    button.style.color = gone ? "" : onColour(Math.sqrt(Math.abs(share)), "signed");
    return button;
  });
  return h("div", { class: `switch-row${rises.length > 8 ? " many" : ""}` }, h("span", { class: "muted", text: called(one.name) }), ...cells);
}

/** Before and after, side by side: what it answers, the loss, and every step whose probability moved. */
function effects(data, after, off) {
  if (!after) {
    return [h("h2", { text: "Nothing is off" }), h("p", { class: "muted", text: "Click a head, or walk to it with the arrows and press Space. What the model then says appears here." }), h("p", {}, "Loss on this text: ", h("b", { class: "number", text: num(data.nll) }), " nats a token.")];
  }
  const rows = data.steps.map((step, n) => ({ step, now: after.steps[n], n })).filter(({ step }) => step.p !== null);
  const moved = rows.sort((a, b) => Math.abs(b.now.p - b.step.p) - Math.abs(a.now.p - a.step.p)).slice(0, 14).sort((a, b) => a.n - b.n);
  return [
    h("h2", { text: `Without ${count(off)}` }),
    h("p", { class: "says small", text: after.answer }),
    h("p", {}, "Loss ", h("b", { class: "number", text: num(data.nll) }), " → ", h("b", { class: "number", text: num(after.nll) }), h("span", { class: "muted", text: ` nats a token, on the same ${rows.length} tokens` })),
    h("h2", { text: "Steps that moved most" }),
    h("table", { class: "numbers moved" }, ...moved.map(({ step, now }) => {
      const likeliest = now.top[0].choice;
      return h("tr", { class: likeliest !== step.top[0].choice ? "changed" : "" }, h("td", { text: piece(step.target) }), h("td", { class: "number", text: percent(step.p) }), h("td", { class: "muted", text: "→" }), h("td", { class: "number", text: percent(now.p) }), h("td", { text: likeliest === step.target ? "" : `now ${piece(likeliest)} ${percent(now.top[0].p)}` }));
    })),
  ];
}
