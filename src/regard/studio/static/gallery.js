/** The images that can be given to a model: those of the run as thumbnails, and a file that is dropped or chosen. */

import { ask, hand, numbers } from "./api.js";
import { fill, h, say } from "./dom.js";
import { pixels } from "./image.js";
import { number, set, state } from "./state.js";

const SHOWN = 24;

/** Another image; of a model that is asked about images, the question stays. */
export const show = (name, target = null) => set({ text: name, target, q: null, k: null, force: null, node: null, first: null, label: null }, { step: true });

export function gallery(drops) {
  const shelf = h("div", { class: "shelf", role: "listbox", "aria-label": "Images of the run" });
  const info = h("span", { class: "muted" });
  const refused = h("p", { id: "image-refused", role: "alert" });
  const file = h("input", { type: "file", accept: "image/*", id: "image-file", "aria-label": "Image file", hidden: true });
  const turn = (by) => set({ first: Math.max(0, now.first + by * SHOWN) });
  const pages = [["‹", "Images before", -1], ["›", "More images", 1]].map(([text, label, by]) => h("button", { type: "button", class: "plain", "aria-label": label, text, onclick: () => turn(by) }));
  const choose = h("button", { type: "button", class: "plain", id: "image-choose", onclick: () => file.click() }, "Choose a file", h("kbd", { text: "o" }));
  const node = h("section", { class: "card gallery" }, h("div", { class: "strip" }, h("h2", { text: "Images" }), info, ...pages), shelf, h("div", { class: "strip" }, choose, h("span", { class: "muted", text: "or drop one anywhere here" }), file), refused);
  let now = { first: 0, of: 0, images: [], label: null }, card = null;

  const turnTo = (name) => show(name, card.images.kind === "questions" ? state().target : null);
  async function take(given) {
    if (!given) return;
    refused.textContent = "";
    try {
      if (given.size > card.images.largest) throw new Error(`${given.name} has ${given.size.toLocaleString("en")} bytes, and ${card.images.largest.toLocaleString("en")} are taken at most; give it smaller.`);
      turnTo((await hand("image", { run: card.name, file: given.name.slice(0, 400) }, given)).name);
    } catch (error) {
      refused.textContent = error.message;
      say(error.message);
    }
  }
  file.addEventListener("change", () => {
    take(file.files[0]);
    file.value = "";
  });
  drops.addEventListener("dragover", (event) => event.preventDefault());
  drops.addEventListener("drop", (event) => {
    if (!card) return;
    event.preventDefault();
    take(event.dataTransfer.files[0]);
  });

  /** The page of thumbnails that has the chosen image, or the one that was turned to. */
  async function update(given, current) {
    card = given;
    const asked = { run: card.name, count: SHOWN, ...(state().first === undefined ? { around: state().text } : { first: number("first", 0) }) };
    const found = await ask("images", asked);
    const small = found.images.length ? await numbers("image-thumbnails", { run: card.name, first: found.first, count: SHOWN }) : null;
    if (!current()) return;
    now = found;
    info.textContent = found.images.length ? `${found.first + 1} to ${found.first + found.images.length} of ${found.of.toLocaleString("en")}` : "";
    pages[0].disabled = found.first === 0;
    pages[1].disabled = found.first + SHOWN >= found.of;
    fill(shelf, ...found.images.map((one, n) => thumb(one, small, n)));
  }
  function thumb(one, { shape: [, tall, wide], data }, n) {
    const canvas = pixels(h("canvas", { "aria-hidden": "true" }), { shape: [tall, wide], data }, n * tall * wide * 3);
    return h("button", { type: "button", role: "option", "aria-selected": String(one.name === state().text), "aria-label": `${one.name}: ${one.caption}`, title: `${one.name}\n${one.caption}`, onclick: () => turnTo(one.name) }, canvas);
  }
  async function move(by) {
    const here = now.images.findIndex((one) => one.name === state().text);
    const next = here < 0 ? now.first : now.first + here + by;
    if (!card || next < 0 || next >= now.of) return;
    const { images } = await ask("images", { run: card.name, first: next, count: 1 });
    if (images.length) turnTo(images[0].name);
  }
  return {
    node,
    update,
    label: () => now.label,
    /** What the run's data say of the chosen image; null of a file. */
    said: () => now.images.find((one) => one.name === state().text)?.caption ?? null,
    keys: [
      { key: "n", description: "next image", action: () => move(1) },
      { key: "p", description: "image before", action: () => move(-1) },
      { key: "o", description: "choose an image file", action: () => file.click() },
    ],
  };
}
