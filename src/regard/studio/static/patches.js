/**
 * An image before a model that classifies it: what a patch or the class token attends to, by layer and head, rollout, and what speaks for a
 * class. Of a model that draws images: what each pixel attended to as it was drawn.
 */

import { ablate } from "./chosen.js";
import { choice } from "./controls.js";
import { drawing } from "./drawing.js";
import { fill, h, percent, say, weight } from "./dom.js";
import { called as place, lit, peak, small, tell, veiledSmall } from "./image.js";
import { number, set, state } from "./state.js";
import { rolesChart } from "./roles.js";

const SMALL = 84; // pixels of a thumbnail
const MOST = 240; // thumbnails: of a deeper model, the means of its layers

/** A layer for people: counted from 1, as in papers. */
const layerName = (n) => `layer ${n + 1}`;
const share = (value) => (value >= 0.0995 ? `${Math.round(100 * value)} %` : `${(100 * value).toFixed(1)} %`);

/** Views of this model: what it can show. */
function views({ image }) {
  if (image.ahead) return [["patch", "A pixel"], ["rollout", "Rollout"], ["roles", "Roles of heads"]];
  if (image.latents) return [["class", "The answer"], ["latents", "Latents"], ["rollout", "Rollout"]];
  const reader = image.first ? "Class token" : image.pooled ? "Pooling" : null;
  return [["patch", "A patch"], ...(reader ? [["class", reader]] : []), ["rollout", "Rollout"], ["relevance", "For a class"], ["roles", "Roles of heads"]];
}

const PIXEL = "A pixel was drawn from those before it. The light lies on the pixels that it attended to as it was drawn: click another, or walk with the arrow keys.";
const ABOUT = {
  patch: "A patch is a square of pixels. The light lies where the framed one attends: click another, or walk with the arrow keys.",
  class: "The class is read from one token. The light lies on the patches that it attends to.",
  latents: "A few learned vectors, the latents, read the image, and only they attend to each other. The light lies on the pixels that one of them reads: click another.",
  rollout: "Rollout multiplies the attention of all layers. It says from which patches information could have come, not which of it was used, and it is the same for every class.",
  relevance: "Weights times their gradients, through all layers: the patches that speak for this class and not against it.",
  roles: "How far each head looks, in pixels, and where to on the whole. Click a head to see it over the image.",
};

export function patches(root, { gallery }) {
  const line = h("div", { class: "verdict" });
  const pointed = h("span", { class: "number muted", id: "pointed" });
  const picture = lit((text) => (pointed.textContent = text), (cell) => set({ cell, ...(kind() === "class" || kind() === "relevance" ? { view: "patch" } : {}) }));
  const which = choice("view", "", () => (now ? views(now.data) : []), () => standard());
  const layer = h("select", { "aria-label": "Layer", id: "layer" });
  const head = h("select", { "aria-label": "Head", id: "one-head" });
  const whose = h("div", { class: "under" }, h("label", { class: "control" }, h("span", { text: "layer" }), layer), h("label", { class: "control" }, h("span", { text: "head" }), head), pointed);
  const under = h("p", { id: "told" });
  const about = h("p", { class: "muted" });
  const off = h("button", { type: "button", class: "link", id: "to-ablation", text: "Switch heads off and see", onclick: () => leave() });
  const shelf = gallery(root);
  const draws = drawing((image, count) => grown(image, count));
  const classes = h("div", { class: "classes", role: "listbox", "aria-label": "Classes, likeliest first" });
  const classCard = h("section", { class: "card" }, h("h2", {}, "Classes", h("span", { class: "muted", text: " choose one to see what speaks for it" })), classes);
  const chart = rolesChart((at, number) => set({ at, head: number }));
  const sheetTitle = h("h2", {});
  const sheet = h("div", { class: "heads-sheet" });
  const sheetCard = h("section", { class: "card" }, sheetTitle, sheet);
  const roles = h("section", { class: "card" }, h("h2", {}, "Roles of heads", h("span", { class: "muted", text: " mean attention distance, pixels" })), chart.node);
  const node = h("div", { class: "seen" },
    h("section", { class: "card" }, which.node, picture.node, whose, under, about, h("p", { class: "caution" }, "Weight is not cause: light lies where the model attends, not on what it needs. ", off, h("kbd", { text: "x" }))),
    h("div", { class: "column" }, draws.node, classCard, roles, sheetCard, shelf.node));
  let now = null;

  const standard = () => (now.data.image.ahead ? "patch" : now.data.image.first || now.data.image.pooled || now.data.image.latents ? "class" : "rollout");
  const kind = () => (views(now.data).some(([one]) => one === state().view) || state().view === "none" ? state().view : standard());
  const cell = () => Math.min(now.count - 1, Math.max(0, number("cell", Math.floor(now.image.rows / 2) * now.image.columns + Math.floor(now.image.columns / 2))));
  const label = () => number("label", now.data.steps[0].top[0].id);
  layer.addEventListener("change", () => set({ at: layer.value, head: layer.value ? head.value : null }));
  head.addEventListener("change", () => set({ head: head.value, at: state().at ?? now.image.attentions.at(-1) }));

  /** Is rollout that of what the head reads, not of one patch? */
  const whole = () => !now.image.ahead && (now.image.latents || state().cell === undefined);
  /** Which row of weights is shown, as the server counts tokens. */
  const token = () => (kind() === "class" ? 0 : now.image.first + cell() * now.image.tokens - now.image.ahead);
  const layers = () => now.image.attentions.map((name) => ({ name, heads: now.pass.attention(name).heads }));
  const chosenLayer = () => now.image.attentions.indexOf(state().at);
  const chosenHead = () => (chosenLayer() < 0 || !/^\d+$/.test(state().head ?? "") ? null : Math.min(layers()[chosenLayer()].heads - 1, Number(state().head)));

  /** Numbers of all tokens, by layer and head; the mean of heads where `at` is null, of layers where both are. */
  function taken({ shape: [, heads, tokens], data }, n, at) {
    const found = new Float32Array(tokens);
    const some = n === null ? layers().map((_, one) => one) : [n];
    for (const one of some) {
      const own = at === null ? Array.from({ length: layers()[one].heads }, (_, number) => number) : [at];
      for (const number of own) for (let t = 0; t < tokens; t++) found[t] += data[(one * heads + number) * tokens + t] / (own.length * some.length);
    }
    return found;
  }
  /** A number for each patch or pixel: the sum over its colours where each is a token; the last one drawn was read by none. */
  function onPatches(row) {
    const { first, tokens } = now.image;
    if (tokens === 1 && row.length >= first + now.count) return row.subarray(first, first + now.count);
    const found = new Float32Array(now.count);
    for (let t = first; t < Math.min(row.length, first + now.count * tokens); t++) found[Math.floor((t - first) / tokens)] += row[t];
    return found;
  }

  /** What is shown: the numbers of all tokens, and what the small pictures are. */
  async function numbersOf(pass, shown) {
    if (shown === "rollout") {
      const found = await pass.numbers("image-rollout", whole() ? {} : { token: token() });
      const [depth, tokens] = found.shape;
      const rows = Array.from({ length: depth }, (_, n) => found.data.subarray(n * tokens, (n + 1) * tokens));
      return { row: rows[depth - 1], small: rows.map((row, n) => ({ row, name: n === depth - 1 ? "all layers" : `from ${layerName(depth - 1 - n)}` })) };
    }
    if (shown === "latents") {
      const [found, { names }] = await Promise.all([pass.numbers("image-latents", {}), pass.ask("image-latent-names")]);
      const all = names.map((name, n) => ({ name, latent: n, row: found.data.subarray(n * now.count, (n + 1) * now.count) }));
      return { row: all[Math.min(all.length - 1, number("latent", 0))].row, small: all };
    }
    if (shown === "relevance") return { row: (await pass.numbers("image-relevance", { choice: label() })).data, small: [] };
    if (shown === "class" && !now.image.first) return { row: (await pass.numbers("image-pooled", {})).data, small: [] };
    const found = await pass.numbers("image-rows", { token: token() });
    const all = layers().map((one, n) => [null, ...Array.from({ length: one.heads }, (_, number) => number)].map((at) => ({ at, n, name: one.name })));
    const few = all.flat().length > MOST ? all.map(([mean]) => [mean]) : all;
    const n = chosenLayer() < 0 ? null : chosenLayer();
    return { row: taken(found, n, chosenHead()), grid: few.map((row) => row.map((one) => ({ ...one, row: taken(found, one.n, one.at) }))), small: [] };
  }

  async function update(pass, current, card) {
    const { data } = pass;
    draws.sync(card);
    if (!data.image) throw new Error("this run has no patches");
    const before = now;
    now = { ...(before?.pass === pass ? before : {}), pass, data, image: data.image, count: data.image.rows * data.image.columns };
    const shown = kind();
    const [pixels, found] = await Promise.all([pass.numbers("image", { run: pass.asked.run, name: pass.asked.text }), shown === "none" ? { row: null, small: [] } : numbersOf(pass, shown)]);
    if (!current()) return;
    Object.assign(now, { pixels, found, base: now.pixels === pixels ? now.base : small(pixels, SMALL) });
    which.sync();
    draws.node.hidden = !now.image.ahead;
    classCard.hidden = Boolean(now.image.ahead);
    if (now.image.ahead) bitsOf(data);
    else classesOf(data.steps[0], shown);
    choices(shown);
    draw(shown);
    smallOnes(shown, found);
    roles.hidden = shown !== "roles";
    sheetCard.hidden = !found.grid && !found.small.length;
    if (shown !== "roles") return;
    chart.wait();
    const heads = await pass.ask("image-roles");
    if (!current()) return;
    now.roles = heads;
    chart.draw(heads, now.image.attentions, { at: state().at, head: chosenHead() }, roles.clientWidth - 30);
  }

  /** The answer in large letters, and every class with its probability. */
  function classesOf({ top, target, p }, shown) {
    const said = shelf.said();
    const file = shelf.label();
    const right = said === null ? null : said === top[0].choice;
    const note = said === null ? (file ?? "") : right ? `✓ its label is ${said}` : `✗ its label is ${said}`;
    fill(line, h("p", { class: "says" }, h("b", { text: top[0].choice }), h("span", { class: "muted", text: ` ${percent(top[0].p)}` })), h("span", { id: "label", class: right === null ? "muted" : `pill ${right ? "good" : "bad"}`, text: note }), target !== top[0].choice && target !== null && h("span", { class: "muted", text: `scored on ${target}: ${percent(p)}` }));
    fill(classes, ...top.map((one) => {
      const inner = h("i");
      inner.style.width = `${Math.max(1, 100 * one.p)}%`;
      return h("button", { type: "button", role: "option", "aria-selected": String(shown === "relevance" && one.id === label()), "data-choice": one.id, onclick: () => set({ view: "relevance", label: one.id }) }, h("span", { class: "name", text: one.choice }), h("span", { class: "bar" }, inner), h("span", { class: "number", text: percent(one.p) }));
    }));
  }

  /** How likely the image is to the model that draws such ones. */
  function bitsOf({ nll, title }) {
    fill(line, h("p", { class: "says" }, h("b", { text: nll === null ? "–" : `${(nll / Math.LN2).toFixed(3)} bits` }), h("span", { class: "muted", text: " a colour of a pixel: the fewer, the likelier the image" })), h("span", { id: "label", class: "muted", text: shelf.label() ?? title }));
  }

  /** An image that is being drawn takes the place of the one that is looked into. */
  function grown(image, count) {
    if (!now) return;
    const [, side] = image.shape;
    picture.draw(image, null, { rows: side, columns: side }, room(), Math.min(side * side - 1, count));
    under.textContent = `${count.toLocaleString("en")} of ${(side * side).toLocaleString("en")} pixels are drawn`;
  }

  function choices(shown) {
    const byHead = shown === "patch" || shown === "roles" || (shown === "class" && now.image.first > 0);
    for (const part of [layer, head]) part.parentNode.hidden = !byHead;
    if (!byHead) return;
    fill(layer, h("option", { value: "", text: "mean of all" }), ...layers().map((one, n) => h("option", { value: one.name, text: layerName(n) })));
    layer.value = chosenLayer() < 0 ? "" : state().at;
    const heads = layers()[Math.max(0, chosenLayer())].heads;
    fill(head, h("option", { value: "mean", text: "mean of all" }), ...Array.from({ length: heads }, (_, n) => h("option", { value: n, text: String(n) })));
    head.value = chosenHead() ?? "mean";
  }

  const room = () => Math.max(140, Math.min(560, Math.max(220, window.innerHeight - 400), node.firstChild.clientWidth - 30));
  const unit = () => (now.image.ahead ? "pixel" : "patch");
  const ofWhat = (shown) => {
    if (shown === "relevance") return `What speaks for “${now.data.steps[0].top.find((one) => one.id === label())?.choice ?? `class ${label()}`}”`;
    if (shown === "latents") return now.found.small[Math.min(now.found.small.length - 1, number("latent", 0))].name;
    if (shown === "class" && now.image.latents) return "The answer, by way of the latents,";
    if (shown === "rollout" && whole()) return `Through all layers, what the ${now.image.first ? "class token" : "head"} reads`;
    if (shown === "rollout") return `Through all layers, the ${unit()} at ${place(cell(), now.image)}`;
    const by = chosenLayer() < 0 ? "mean of all layers and heads" : `${layerName(chosenLayer())}, ${chosenHead() === null ? "mean of its heads" : `head ${chosenHead()}`}`;
    return shown === "class" ? (now.image.first ? `The class token (${by})` : "The query that pools the patches") : `The ${unit()} at ${place(cell(), now.image)} (${by})`;
  };

  function draw(shown) {
    const row = now.found.row;
    const map = row && onPatches(row);
    const framed = shown === "patch" || shown === "roles" || (shown === "rollout" && !whole()) ? cell() : null;
    picture.draw(now.pixels, map, now.image, room(), framed);
    about.textContent = (shown === "patch" && now.image.ahead ? PIXEL : ABOUT[shown]) ?? "The image as the model was given it; click a patch to see what it attends to.";
    if (!map) return fill(under, `${now.image.rows} × ${now.image.columns} ${now.image.ahead || now.image.latents ? "pixels" : "patches"}`);
    const tokens = now.data.sides[now.image.stack].tokens;
    const beside = shown === "relevance" || now.image.first > 4 ? [] : tokens.slice(0, now.image.first).map((name, n) => `${share(row[n])} on ${name}`);
    const own = framed !== null && shown !== "rollout" && !now.image.ahead ? [`${share(map[framed])} on itself`] : [];
    const most = map[peak(map)];
    const verb = shown === "relevance" ? "lies most in" : shown === "rollout" ? "has the largest share from" : now.image.ahead ? "attended most to" : "attends most to";
    fill(under, h("b", { text: `${ofWhat(shown)} ` }), most > 0 ? `${verb} ${place(peak(map), now.image)} (${weight(most)})` : "is nowhere: nothing speaks for it", [...beside, ...own].length ? `; ${[...beside, ...own].join(", ")}.` : ".");
    say(`${ofWhat(shown)} ${verb} ${tell(map, now.image)}`);
  }

  function smallOnes(shown, found) {
    const rows = found.grid ?? (found.small.length ? [found.small] : []);
    sheetTitle.textContent = found.grid ? "Every layer and head" : shown === "latents" ? "Latents, those that the answer attends to most first" : "Through how many layers";
    sheet.style.setProperty("--across", String(found.grid ? Math.max(1, ...rows.map((row) => row.length)) : 4));
    sheet.classList.toggle("by-head", Boolean(found.grid));
    const button = (one, name, on) => h("button", { type: "button", title: name, "aria-label": name, "aria-pressed": String(on), onclick: () => (one.latent !== undefined ? set({ latent: one.latent }) : one.at !== undefined && set({ at: one.name, head: one.at ?? "mean" })) }, veiledSmall(now.base, onPatches(one.row), now.image), found.grid ? "" : h("span", { text: name }));
    const names = found.grid ? ["", "mean", ...Array.from({ length: Math.max(...rows.map((row) => row.length)) - 1 }, (_, n) => String(n))] : [];
    fill(sheet, ...names.map((text) => h("span", { class: "muted column-name", text })), ...rows.flatMap((row, n) => [
      found.grid && h("span", { class: "muted row-name", text: layerName(n) }),
      ...row.map((one) => (found.grid ? button(one, `${layerName(n)}, ${one.at === null ? "mean" : `head ${one.at}`}`, chosenLayer() === n && chosenHead() === one.at) : button(one, one.name, shown === "latents" && one.latent === number("latent", 0)))),
    ]));
  }

  function leave() {
    if (chosenHead() === null) return set({ screen: "ablate" }, { step: true });
    ablate(now.pass);
  }
  const walk = (down, right) => {
    if (now.image.latents) return;
    const { rows, columns } = now.image;
    const next = [Math.floor(cell() / columns) + down, (cell() % columns) + right];
    if (next[0] < 0 || next[0] >= rows || next[1] < 0 || next[1] >= columns) return;
    set({ cell: next[0] * columns + next[1], ...(["patch", "roles", "rollout"].includes(kind()) ? {} : { view: "patch" }) });
  };
  /** The next layer, or the next head; from joined heads to the first or last of them. */
  const turn = (layersOn, headsOn) => {
    const names = layers();
    if (!names.length) return;
    const n = (chosenLayer() + layersOn + (chosenLayer() < 0 && layersOn <= 0 ? 1 : 0) + names.length) % names.length;
    const at = Math.max(0, n);
    const heads = names[at].heads;
    const one = headsOn === 0 ? (chosenHead() ?? "mean") : chosenHead() === null ? (headsOn > 0 ? 0 : heads - 1) : (chosenHead() + headsOn + heads) % heads;
    set({ at: names[at].name, head: one === "mean" ? "mean" : Math.min(heads - 1, one) });
  };
  const arrows = [["ArrowRight", "→", "patch to the right", 0, 1], ["ArrowLeft", "←", "patch to the left", 0, -1], ["ArrowDown", "↓", "patch below", 1, 0], ["ArrowUp", "↑", "patch above", -1, 0]];
  const letters = { c: "class", r: "rollout", g: "relevance", h: "roles", l: "latents" };
  return {
    node,
    line,
    update,
    shelf,
    query: () => (now ? { at: state().at ?? now.image.attentions.at(-1), q: now.image.first + cell() * now.image.tokens - now.image.ahead, k: null } : {}),
    keys: () => !now ? shelf.keys : [
      ...arrows.map(([key, shown, description, down, right]) => ({ key, shown, description, action: () => walk(down, right) })),
      ...Object.entries(letters).filter(([, view]) => views(now.data).some(([one]) => one === view)).map(([key, view]) => ({ key, description: { class: "what the class is read from", rollout: "rollout of all layers", relevance: "what speaks for a class", roles: "roles of heads", latents: "what latents read" }[view], action: () => set({ view, ...(view === "rollout" ? { cell: null } : {}) }) })),
      { key: "]", description: "next layer", action: () => turn(1, 0) },
      { key: "[", description: "layer before", action: () => turn(-1, 0) },
      { key: ".", description: "next head", action: () => turn(0, 1) },
      { key: ",", description: "head before", action: () => turn(0, -1) },
      { key: "m", description: "mean of all layers and heads", action: () => set({ at: null, head: null }) },
      { key: "Backspace", shown: "⌫", description: "the image as it is", action: () => set({ view: "none" }) },
      { key: "x", description: "switch heads off, and see what changes", action: () => leave() },
      ...(now.image.ahead ? [{ key: "d", description: "draw an image", action: () => draws.start() }] : []),
      ...shelf.keys,
    ],
    data: () => now?.found && { view: kind(), patch: cell(), rows: now.image.rows, columns: now.image.columns, told: under.textContent, map: now.found.row ? Array.from(onPatches(now.found.row)) : null, roles: kind() === "roles" ? (now.roles ?? null) : null },
  };
}
