/** The one-file page of a caption: the image as each word attended to it. */

import { h } from "./dom.js";
import { data, root, start } from "./offline.js";
import { seenImage } from "./seen.js";
import { set } from "./state.js";
import { decode } from "./weights.js";

const pixels = { shape: data.image.shape, data: Uint8Array.from(atob(data.image.pixels), (character) => character.charCodeAt(0)) };
const values = decode(data.maps);
const pass = {
  data: { attentions: [], steps: null, averaged: data.averaged },
  asked: {},
  ask: async () => ({ ...data.maps, values }),
  numbers: async () => pixels,
};
const screen = seenImage(root, { offline: true });
root.append(h("section", { class: "card" }, screen.line), screen.node);
start({ ...screen, update: (context, current) => screen.update(context.pass, current) }, { pass }, { key: "Escape", description: "the image as it is", action: () => set({ q: null }) });
