/** Images that a model draws pixel by pixel: asked for by a class, or as the rest of the chosen image, and shown as they grow. */

import { frames } from "./api.js";
import { fill, h, say } from "./dom.js";
import { state } from "./state.js";
import { show } from "./gallery.js";

const COUNT = 4; // bytes that say how many pixels are there
const LAST = 2 ** 32 - 1; // in their place: the name of the image follows

/** @param {(image: {shape: number[], data: Uint8Array}, pixels: number) => void} grown  a frame is there */
export function drawing(grown) {
  const what = h("select", { "aria-label": "What to draw", id: "draw-what" });
  const seed = h("input", { type: "text", inputmode: "numeric", value: "1", id: "draw-seed", "aria-label": "Seed", size: 4 });
  const go = h("button", { type: "button", class: "primary", id: "draw", onclick: () => start() }, "Draw", h("kbd", { text: "d" }));
  const stop = h("button", { type: "button", class: "plain", id: "draw-stop", hidden: true, text: "Stop", onclick: () => asking?.abort() });
  const bar = h("progress", { "aria-label": "Pixels drawn", max: 1, value: 0, hidden: true });
  const refused = h("p", { id: "draw-refused", role: "alert" });
  const node = h("section", { class: "card drawing" }, h("h2", {}, "Draw", h("span", { class: "muted", text: " pixel by pixel; the same seed draws the same image" })), h("div", { class: "strip" }, h("label", { class: "control" }, h("span", { text: "what" }), what), h("label", { class: "control" }, h("span", { text: "seed" }), seed), go, stop), bar, refused);
  let card = null, asking = null;

  async function start() {
    if (asking) return;
    asking = new AbortController();
    refused.textContent = "";
    go.disabled = true;
    stop.hidden = bar.hidden = false;
    bar.value = 0;
    const number = Number.parseInt(seed.value, 10) || 0;
    const rest = what.value === "rest";
    let name = null;
    try {
      const { side, chunks } = await frames("draw", { run: card.name, number, ...(rest ? { image: state().text } : { text: what.value.slice(6) }) }, asking.signal);
      const size = COUNT + 3 * side * side;
      for await (const { count, bytes } of cut(chunks, size)) {
        if (count === LAST) name = new TextDecoder().decode(bytes);
        else {
          bar.value = count / (side * side);
          grown({ shape: [side, side, 3], data: bytes }, count);
        }
      }
      say("drawn");
    } catch (error) {
      if (error.name !== "AbortError") {
        refused.textContent = error.message;
        say(error.message);
      }
    }
    asking = null;
    go.disabled = false;
    stop.hidden = bar.hidden = true;
    if (name) {
      seed.value = String(number + 1);
      show(name);
    }
  }
  return {
    node,
    start,
    busy: () => asking !== null,
    sync(given) {
      if (card === given) return;
      card = given;
      const { classes } = given.images;
      fill(what, ...(classes.length ? classes.map((one) => h("option", { value: `class:${one}`, text: one })) : [h("option", { value: "class:", text: "any image" })]), h("option", { value: "rest", text: "the rest of this image" }));
    },
  };
}

/** Frames of a fixed size, and after the last of them a name. */
async function* cut(chunks, size) {
  let held = new Uint8Array(0);
  const count = () => new DataView(held.buffer, held.byteOffset).getUint32(0, true);
  for await (const chunk of chunks) {
    const joined = new Uint8Array(held.length + chunk.length);
    joined.set(held);
    joined.set(chunk, held.length);
    held = joined;
    while (held.length >= size && count() !== LAST) {
      yield { count: count(), bytes: held.slice(COUNT, size) };
      held = held.slice(size);
    }
  }
  if (held.length > COUNT && count() === LAST) yield { count: LAST, bytes: held.slice(COUNT) };
}
