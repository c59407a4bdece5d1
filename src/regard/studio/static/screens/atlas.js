/** Atlas: every head of the model on one canvas, with a measure below each; Enter opens the one that is marked. */

import { called, chosen, notCause } from "../chosen.js";
import { kind } from "../colour.js";
import { choice, panel } from "../controls.js";
import { css, fill, h, num, say } from "../dom.js";
import { largest, paint, sized } from "../heat.js";
import { set, state } from "../state.js";
import { BELOW, GAP, layout } from "./atlas_layout.js";

export const atlas = { id: "atlas", title: "Atlas", description: "every head at once", mount, attends: true };

const MEASURES = [
  ["evenness", "evenness", "how evenly it attends: 0 to one key, 1 to all alike"],
  ["entropy", "entropy", "nats: 0 where one key has all"],
  ["distance", "distance", "tokens between a query and the keys it attends to"],
  ["largest", "largest", "the largest weight of a row, on average"],
  ["specials", "on specials", "weight on <eos>, [SEP] and the like"],
  ["first", "on the first", "weight on the first token"],
  ["itself", "on itself", "weight on the query's own place"],
  ["importance", "loss without it", "how much the loss rises when the head is switched off"],
  ["role", "role", "what it does best, with a score"],
];

function mount(root) {
  const canvas = h("canvas", { id: "atlas-canvas", role: "img", tabindex: 0 });
  const side = h("aside", { class: "card detail" });
  const info = h("p", { class: "muted" });
  const controls = panel(choice("by", "below each head", () => MEASURES.map(([key, label]) => [key, label])));
  const box = h("div", { class: "atlas-box" }, canvas);
  root.append(h("div", { class: "strip" }, controls.node, info), h("div", { class: "atlas-main" }, box, side));
  let now = null;

  const mark = () => now.plan.cells.find((one) => one.name === now.at.name && one.head === now.at.number) ?? now.plan.cells[0];

  async function update({ pass }, current) {
    controls.sync();
    const began = performance.now();
    const [statistics, ...thumbs] = await Promise.all([pass.ask("heads"), ...pass.data.attentions.map((one) => pass.numbers("thumbnails", { name: one.name }))]);
    const measure = await measured(pass, statistics);
    if (!current()) return;
    const plan = layout(pass, box.clientWidth - 8, box.clientHeight - 8);
    now = { pass, statistics, measure, plan, at: chosen(pass), thumbs: new Map(pass.data.attentions.map((one, n) => [one.name, thumbs[n]])) };
    const drawing = performance.now();
    draw(canvas, now, mark());
    canvas.dataset.drawn = String(Math.round(performance.now() - drawing));
    info.textContent = MEASURES.find(([key]) => key === (state().by ?? "evenness"))[2];
    fill(side, ...detail(now, () => now.pass));
    canvas.dataset.ms = String(Math.round(performance.now() - began));
    say(canvas.getAttribute("aria-label"));
  }

  function step(dx, dy) {
    const at = mark();
    const wanted = { x: at.x + dx * 4, y: at.y + dy * 4 };
    const ahead = now.plan.cells.filter((one) => (dx ? Math.sign(one.x - at.x) === dx && one.y === at.y : Math.sign(one.y - at.y) === dy));
    const next = ahead.sort((a, b) => Math.hypot(a.x - wanted.x, a.y - wanted.y) - Math.hypot(b.x - wanted.x, b.y - wanted.y))[0];
    if (next) set({ at: next.name, head: next.head });
  }

  const open = () => set({ screen: "head" }, { step: true });
  canvas.addEventListener("click", (event) => {
    const hit = now?.plan.cells.find((one) => event.offsetX >= one.x && event.offsetX < one.x + now.plan.cell && event.offsetY >= one.y && event.offsetY < one.y + now.plan.cell + BELOW);
    if (hit) set({ at: hit.name, head: hit.head });
  });
  canvas.addEventListener("dblclick", open);
  return {
    update,
    keys: () => [
      { key: "ArrowRight", shown: "→", description: "head to the right", action: () => step(1, 0) },
      { key: "ArrowLeft", shown: "←", description: "head to the left", action: () => step(-1, 0) },
      { key: "ArrowDown", shown: "↓", description: "layer below", action: () => step(0, 1) },
      { key: "ArrowUp", shown: "↑", description: "layer above", action: () => step(0, -1) },
      { key: "Enter", description: "open this head", action: open },
      { key: "m", description: "next measure", action: () => set({ by: MEASURES[(MEASURES.findIndex(([key]) => key === (state().by ?? "evenness")) + 1) % MEASURES.length][0] }) },
    ],
    data: () => ({ title: now.pass.data.title, measure: state().by ?? "evenness", statistics: now.statistics, values: now.measure.values }),
  };
}

/** The chosen number of every head; what takes another pass is asked for only when chosen. */
async function measured(pass, statistics) {
  const by = state().by ?? "evenness";
  if (by === "importance") {
    const { rise } = await pass.ask("ablations");
    return { values: rise, most: largest(Object.values(rise).flat(), 1e-9) };
  }
  if (by === "role") {
    const { roles } = await pass.ask("roles");
    return { values: Object.fromEntries(Object.entries(roles).map(([name, heads]) => [name, heads.map((one) => one.score)])), most: 1, roles };
  }
  const values = statistics[by];
  return { values, most: ["evenness", "largest", "specials", "first", "itself"].includes(by) ? 1 : largest(Object.values(values).flat().map((v) => v ?? 0), 1e-9) };
}

function draw(canvas, { pass, measure, plan, thumbs }, mark) {
  const context = sized(canvas, plan.wide, plan.tall);
  const ink = css("--ink");
  const muted = css("--muted");
  const { cell } = plan;
  context.textBaseline = "middle";
  context.font = `600 13px ${css("--sans")}`;
  context.fillStyle = ink;
  for (const { title, x, y } of plan.titles) context.fillText(title, x, y);
  context.font = `11px ${css("--sans")}`;
  const kinds = measure.roles ? [...new Set(Object.values(measure.roles).flat().map((one) => one.role))] : [];
  for (const one of plan.cells) {
    const { shape, data } = thumbs.get(one.name);
    const size = shape[1] * shape[2];
    paint(context, data.subarray(one.head * size, (one.head + 1) * size), { rows: shape[1], columns: shape[2], x: one.x, y: one.y, wide: cell, tall: cell, most: 255 });
    const value = measure.values[one.name][one.head];
    const share = value === null ? 0 : Math.min(1, Math.max(0, value / measure.most));
    const role = measure.roles?.[one.name][one.head].role;
    context.fillStyle = css("--hold");
    context.fillRect(one.x, one.y + cell + 3, cell, 4);
    context.fillStyle = role ? kind(kinds.indexOf(role)) : css("--mark");
    context.fillRect(one.x, one.y + cell + 3, Math.max(1, cell * share), 4);
    context.fillStyle = muted;
    if (cell >= 40) context.fillText(role && cell > 56 ? role.slice(0, Math.floor(cell / 6)) : num(value, 2), one.x, one.y + cell + 14);
    if (one.head === 0) context.fillText(String(one.row + 1), one.x - 14, one.y + cell / 2);
  }
  for (const { x, y, across } of plan.titles) {
    for (let head = 0; head < across; head++) context.fillText(String(head), x + head * (cell + GAP) + cell / 2 - 3, y + 18);
  }
  context.strokeStyle = css("--mark");
  context.lineWidth = 2.5;
  context.strokeRect(mark.x - 3, mark.y - 3, cell + 6, cell + 6);
  const value = measure.values[mark.name][mark.head];
  canvas.setAttribute("aria-label", `${pass.data.attentions.length} attentions; marked: ${called(mark.name)}, head ${mark.head}, ${state().by ?? "evenness"} ${num(value)}`);
}

function detail({ pass, statistics, measure, at, thumbs }, lookNow) {
  const canvas = h("canvas", { role: "img", "aria-label": `${called(at.name)} head ${at.number}` });
  const { shape, data } = thumbs.get(at.name);
  const size = shape[1] * shape[2];
  const side = 236;
  const scale = side / Math.max(shape[1], shape[2]);
  paint(sized(canvas, shape[2] * scale, shape[1] * scale), data.subarray(at.number * size, (at.number + 1) * size), { rows: shape[1], columns: shape[2], wide: shape[2] * scale, tall: shape[1] * scale, most: 255 });
  const rows = MEASURES.slice(0, 7).map(([key, label, description]) => h("tr", { title: description }, h("td", { text: label }), h("td", { class: "number", text: num(statistics[key][at.name][at.number]) })));
  const role = measure.roles?.[at.name][at.number];
  const [queries, keys] = [at.queries, at.keys];
  return [
    h("h2", {}, `${called(at.name)}, head ${at.number}`),
    h("p", { class: "muted", text: `${queries} queries down, ${keys} keys across, shaded from 0 to its largest weight${queries > 32 || keys > 32 ? "; pooled, the largest of each tile" : ""}` }),
    canvas,
    role && h("p", {}, h("b", { text: role.role }), ` ${num(role.score, 2)}. `, h("span", { class: "muted", text: `${role.evidence.replaceAll("▁", "·")}${role.luck === null ? "" : `; the best head with random weights reaches ${num(role.luck, 2)}`}` })),
    h("table", { class: "numbers" }, ...rows),
    h("button", { type: "button", class: "primary", text: "Open this head", onclick: () => set({ screen: "head" }, { step: true }) }, h("kbd", { text: "Enter" })),
    notCause(lookNow),
  ];
}
