/** A run whose files are no longer those that are shown: said above the screen, in one sentence, with a way to see it as it is. */

import { ask } from "./api.js";
import { fill, h, say } from "./dom.js";

const EVERY = 4000; // ms between checks of the files

/** @param {HTMLElement} before */
export function watchFiles(before) {
  const place = h("p", { id: "changed", role: "status" });
  place.hidden = true;
  before.before(place);
  let card = null;

  function tell(sentence) {
    if ((place.dataset.info ?? "") === (sentence ?? "")) return;
    place.dataset.info = sentence ?? "";
    place.hidden = !sentence;
    if (!sentence) return fill(place);
    fill(place, h("span", { text: sentence }), h("button", { type: "button", class: "tool", text: "Reload", onclick: () => location.reload() }));
    say(sentence);
  }

  async function check() {
    if (!card || document.hidden) return;
    const asked = card;
    try {
      const { changed } = await ask("changed", { run: asked.name, version: asked.version });
      if (asked === card) tell(changed);
    } catch {
      // the screen says when the server does not answer
    }
  }
  setInterval(check, EVERY);
  document.addEventListener("visibilitychange", check);
  return {
    /** @param {{name: string, version: string}} info what the page shows */
    watch(info) {
      if (card !== info) tell(null);
      card = info;
      check();
    },
  };
}
