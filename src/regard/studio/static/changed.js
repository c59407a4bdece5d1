/** A run whose files are no longer those that are looked at: said above the screen, in one sentence, with a way to see it as it is. */

import { ask } from "./api.js";
import { fill, h, say } from "./dom.js";

const EVERY = 4000; // ms between looks at the files

/** @param {HTMLElement} before */
export function watchFiles(before) {
  const place = h("p", { id: "changed", role: "status" });
  place.hidden = true;
  before.before(place);
  let card = null;

  function tell(sentence) {
    if ((place.dataset.told ?? "") === (sentence ?? "")) return;
    place.dataset.told = sentence ?? "";
    place.hidden = !sentence;
    if (!sentence) return fill(place);
    fill(place, h("span", { text: sentence }), h("button", { type: "button", class: "tool", text: "Reload", onclick: () => location.reload() }));
    say(sentence);
  }

  async function look() {
    if (!card || document.hidden) return;
    const asked = card;
    try {
      const { changed } = await ask("changed", { run: asked.name, version: asked.version });
      if (asked === card) tell(changed);
    } catch {
      // the screen says when the server does not answer
    }
  }
  setInterval(look, EVERY);
  document.addEventListener("visibilitychange", look);
  return {
    /** @param {{name: string, version: string}} told what the page shows */
    watch(told) {
      if (card !== told) tell(null);
      card = told;
      look();
    },
  };
}
