/** Elements, made of plain values. Whatever is shown as text goes through text nodes: nothing here can become markup. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {Element} node
 * @param {Record<string, unknown>} given  class, text, data-*, aria-*, on… handlers, or any attribute; null leaves one out
 * @param {(Node|string|null|undefined|false)[]} children
 */
function dressed(node, given, children) {
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") node.textContent = String(value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (name === "value" || name === "checked" || name === "disabled") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An HTML element. @returns {HTMLElement} */
export const h = (tag, given = {}, ...children) => dressed(document.createElement(tag), given, children);

/** An SVG element. @returns {SVGElement} */
export const s = (tag, given = {}, ...children) => dressed(document.createElementNS(SVG, tag), given, children);

/** @param {Element} node */
export function fill(node, ...children) {
  node.replaceChildren(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** A sentence for people who use a screen reader. */
export function say(sentence) {
  const said = document.getElementById("said");
  if (said && said.textContent !== sentence) said.textContent = sentence;
}

/** A number of a theme, as CSS has it. */
export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** Numbers for people: enough digits to tell them apart, no more. */
export function num(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) {
    const [digitsOf, power] = value.toExponential(1).split("e");
    return `${digitsOf.replace("-", "−")}·10${[...power.replace("+", "")].map((c) => RAISED[c]).join("")}`;
  }
  return value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : digits).replace("-", "−");
}

export const percent = (p) => (p === null ? "–" : p > 0.9995 ? "100 %" : p < 0.001 ? "<0.1 %" : `${(100 * p).toFixed(1)} %`);

/** A weight: three digits, however small. */
export const weight = (value) => value.toFixed(3);

/** A piece as people read it: a space as a light dot, nothing as a sign for it, and no more than fits. */
export function piece(token) {
  const shown = token.replaceAll("▁", "·");
  return shown === "" ? "∅" : shown.length > 24 ? `${shown.slice(0, 23)}…` : shown;
}
