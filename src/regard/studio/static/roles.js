/** Roles of heads on an image: mean attention distance by layer, a dot a head, with an arrow where it looks on the whole. */

import { fill, h, num, s } from "./dom.js";

const TALL = 230;
const LEFT = 36, RIGHT = 10, TOP = 12, BOTTOM = 32;

/** @param {(at: string, head: number) => void} pick */
export function rolesChart(pick) {
  const drawing = s("svg", { class: "roles", role: "img", tabindex: -1 });
  const told = h("p", { class: "muted", id: "role" });
  const random = h("span", { class: "legend" }, h("span", { class: "dot random" }), "random weights");
  const node = h("div", {}, drawing, told, h("div", { class: "legend roles-legend" }, h("span", { class: "dot" }), "a head", random, h("span", { class: "dash" }), "even attention"));

  /** What a head does, in words. */
  const words = (one, layers) => `layer ${layers.indexOf(one.attention) + 1}, head ${one.head}: ${one.role}; ${num(one.distance, 1)} px away, ${num(Math.abs(one.right), 1)} px ${one.right < 0 ? "left" : "right"} and ${num(Math.abs(one.down), 1)} px ${one.down < 0 ? "up" : "down"} on the whole; ${num(100 * one.class, 1)} % on other tokens, ${num(100 * one.itself, 1)} % on itself`;

  function draw(found, layers, at, wide) {
    const most = Math.max(found.even, ...found.heads.map((one) => one.distance), 1e-9) * 1.08;
    const y = (distance) => TALL - BOTTOM - (distance / most) * (TALL - TOP - BOTTOM);
    const step = (wide - LEFT - RIGHT) / layers.length;
    const count = (name) => found.heads.filter((one) => one.attention === name).length;
    const x = (one) => LEFT + step * (layers.indexOf(one.attention) + 0.5 + 0.7 * ((one.head + 0.5) / count(one.attention) - 0.5));
    const every = [1, 2, 5, 10, 20, 50, 100, 200].find((one) => most / one <= 7) ?? most;
    const ticks = Array.from({ length: 1 + Math.floor(most / every) }, (_, n) => n * every);
    const arrow = Math.min(26, 0.5 * step) / (most / 2); // of the picture, a pixel of the image
    random.hidden = !found.random.length;
    drawing.setAttribute("width", String(wide));
    drawing.setAttribute("height", String(TALL));
    drawing.setAttribute("aria-label", found.heads.map((one) => words(one, layers)).join(". "));
    fill(drawing,
      ...ticks.flatMap((value) => [s("path", { class: "rule", d: `M${LEFT},${y(value)} H${wide - RIGHT}` }), s("text", { x: LEFT - 5, y: y(value) + 3.5, "text-anchor": "end", class: "small", "font-size": 10.5, text: String(value) })]),
      ...layers.map((_, n) => s("text", { x: LEFT + step * (n + 0.5), y: TALL - 16, "text-anchor": "middle", class: "small", "font-size": 10.5, text: String(n + 1) })),
      s("text", { x: LEFT + (wide - LEFT - RIGHT) / 2, y: TALL - 3, "text-anchor": "middle", class: "small", "font-size": 10.5, text: "layer" }),
      s("path", { class: "mark", d: `M${LEFT},${y(found.even)} H${wide - RIGHT}` }),
      ...found.random.map((one) => s("circle", { class: "random", cx: x(one), cy: y(one.distance), r: 3 })),
      ...found.heads.map((one) => s("path", { class: "way", d: `M${x(one)},${y(one.distance)} l${one.right * arrow},${one.down * arrow}` })),
      ...found.heads.map((one) => {
        const on = one.attention === at.at && one.head === at.head;
        const made = s("circle", { class: on ? "head-dot on" : "head-dot", cx: x(one), cy: y(one.distance), r: on ? 6.5 : 5, "data-head": `${one.attention}:${one.head}`, onclick: () => pick(one.attention, one.head), onmouseenter: () => (told.textContent = words(one, layers)) });
        made.append(s("title", { text: words(one, layers) }));
        return made;
      }),
    );
    const chosen = found.heads.find((one) => one.attention === at.at && one.head === at.head);
    told.textContent = chosen ? words(chosen, layers) : "Point at a head, or walk with . and , and with ] and [.";
  }
  return { node, draw, wait: () => (told.textContent = "asking every head, and the same model with random weights …") };
}
