/** What every one-file page shares: its data, a bar with the title, and one screen that is drawn again whenever the view changes. */

import { h } from "./dom.js";
import { bind, help, screenKeys } from "./keys.js";
import { onChange } from "./state.js";
import { onTheme, turn } from "./theme.js";

export const data = JSON.parse(document.getElementById("data").textContent);
export const root = document.getElementById("screen");

/** @param {{update: Function, keys: Function}} screen @param {object} context  what the screen gets in studio: the pass */
export function start(screen, context, ...shortcuts) {
  let latest = 0;
  async function update() {
    const mine = ++latest;
    root.dataset.ready = "";
    document.getElementById("refused")?.remove();
    try {
      await screen.update(context, () => mine === latest);
    } catch (error) {
      root.before(h("p", { id: "refused", role: "alert", text: error.message }));
    }
    root.dataset.ready = "1";
  }
  const toolbar = [["t", "Theme", turn], ["?", "Keys", () => help("this page")]];
  document.getElementById("bar").append(
    h("h1", { text: data.title }),
    ...toolbar.map(([key, label, onclick]) => h("button", { type: "button", class: "tool", id: `tool-${label.toLowerCase()}`, title: `${label} (${key})`, onclick }, h("kbd", { text: key }), h("span", { text: label }))),
  );
  bind(...shortcuts, { key: "t", description: "light or dark", action: turn }, { key: "?", description: "these keys", action: () => help("this page") });
  screenKeys(() => screen.keys(context));
  onChange(update);
  onTheme(update);
  window.addEventListener("resize", update);
  update();
}
