/**
 * An image before a model that classifies it: what a patch or the class token attends to, by layer and head, rollout, and what speaks for a
 * class. Of a model that draws images: what each pixel attended to as it was drawn.
 */

import { ablate } from "./chosen.js";
import { classes } from "./classes.js";
import { choice } from "./controls.js";
import { drawing } from "./drawing.js";
import { fill, h, say, weight } from "./dom.js";
import { called as place, lit, peak, small, tell, veiledSmall } from "./image.js";
import { numbersOf, onPatches } from "./patch_rows.js";
import { about as aboutView, layerName, share, views } from "./patch_views.js";
import { number, set, state } from "./state.js";
import { rolesChart } from "./roles.js";

const SMALL = 84; // pixels of a thumbnail

export function patches(root, { gallery }) {
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
  const answer = classes(shelf);
  const chart = rolesChart((at, number) => set({ at, head: number }));
  const sheetTitle = h("h2", {});
  const sheet = h("div", { class: "heads-sheet" });
  const sheetCard = h("section", { class: "card" }, sheetTitle, sheet);
  const roles = h("section", { class: "card" }, h("h2", {}, "Roles of heads", h("span", { class: "muted", text: " mean attention distance, pixels" })), chart.node);
  const node = h("div", { class: "seen" },
    h("section", { class: "card" }, which.node, picture.node, whose, under, about, h("p", { class: "caution" }, "Weight is not cause: light lies where the model attends, not on what it needs. ", off, h("kbd", { text: "x" }))),
    h("div", { class: "column" }, draws.node, answer.node, roles, sheetCard, shelf.node));
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

  const asked = (view) => {
    const layer = chosenLayer() < 0 ? null : chosenLayer();
    return { view, layers: layers(), layer, head: chosenHead(), token: token(), whole: whole(), label: view === "relevance" ? label() : null, latent: number("latent", 0) };
  };

  async function update(pass, current, card) {
    const { data } = pass;
    draws.sync(card);
    if (!data.image) throw new Error("this run has no patches");
    const before = now;
    now = { ...(before?.pass === pass ? before : {}), pass, data, image: data.image, count: data.image.rows * data.image.columns };
    const shown = kind();
    const [pixels, found] = await Promise.all([pass.numbers("image", { run: pass.asked.run, name: pass.asked.text }), numbersOf(pass, now.image, asked(shown))]);
    if (!current()) return;
    Object.assign(now, { pixels, found, base: now.pixels === pixels ? now.base : small(pixels, SMALL) });
    which.sync();
    draws.node.hidden = !now.image.ahead;
    answer.node.hidden = Boolean(now.image.ahead);
    if (now.image.ahead) answer.bits(data);
    else answer.draw(data.steps[0], shown === "relevance" ? label() : null);
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
    const map = row && onPatches(row, now.image);
    const framed = shown === "patch" || shown === "roles" || (shown === "rollout" && !whole()) ? cell() : null;
    picture.draw(now.pixels, map, now.image, room(), framed);
    about.textContent = aboutView(shown, now.image);
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
    const button = (one, name, on) => h("button", { type: "button", title: name, "aria-label": name, "aria-pressed": String(on), onclick: () => (one.latent !== undefined ? set({ latent: one.latent }) : one.at !== undefined && set({ at: one.name, head: one.at ?? "mean" })) }, veiledSmall(now.base, onPatches(one.row, now.image), now.image), found.grid ? "" : h("span", { text: name }));
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
    line: answer.line,
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
    data: () => now?.found && { view: kind(), patch: cell(), rows: now.image.rows, columns: now.image.columns, told: under.textContent, map: now.found.row ? Array.from(onPatches(now.found.row, now.image)) : null, roles: kind() === "roles" ? (now.roles ?? null) : null },
  };
}
