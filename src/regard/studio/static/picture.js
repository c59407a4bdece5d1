/** What is seen, as one SVG: every text as text, every canvas as an image, every drawing as it is. */

import { css } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const DRAWN = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "fill-opacity", "opacity", "font-size", "font-family", "font-weight", "text-anchor", "dominant-baseline", "stroke-linecap"];

function make(tag, given, text) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(given)) node.setAttribute(name, String(value));
  if (text !== undefined) node.textContent = text;
  return node;
}

/** @param {HTMLElement} root @returns {SVGElement} */
export function pictureOf(root) {
  const frame = root.getBoundingClientRect();
  const size = { width: Math.ceil(frame.width), height: Math.ceil(frame.height) };
  const sheet = make("svg", { xmlns: SVG, ...size, viewBox: `0 0 ${size.width} ${size.height}` });
  sheet.append(make("rect", { ...size, fill: css("--paper") }));
  visit(root, sheet, frame, frame);
  return sheet;
}

/** The part of a box that its scrolling ancestors leave to be seen. */
function clipped(a, b) {
  const left = Math.max(a.left, b.left);
  const top = Math.max(a.top, b.top);
  const right = Math.min(a.right, b.right);
  const bottom = Math.min(a.bottom, b.bottom);
  return { left, top, right, bottom, width: right - left, height: bottom - top };
}

function visit(node, sheet, frame, seen) {
  if (node.nodeType === Node.TEXT_NODE) return write(node, sheet, frame, seen);
  if (!(node instanceof Element)) return;
  const style = getComputedStyle(node);
  const box = node.getBoundingClientRect();
  if (style.visibility === "hidden" || style.display === "none" || style.opacity === "0") return;
  if (node instanceof SVGSVGElement) return sheet.append(copied(node, box, frame));
  const within = style.overflow === "visible" ? seen : clipped(seen, box);
  if (!(node instanceof HTMLInputElement) || node.type === "text") ground(box, style, sheet, frame, seen);
  if (node instanceof HTMLCanvasElement) return image(node, box, sheet, frame);
  if (node instanceof HTMLInputElement && node.type !== "text") return control(node, box, sheet, frame);
  if (node instanceof HTMLSelectElement) return line(node.selectedOptions[0]?.text ?? "", box, style, sheet, frame);
  if (node instanceof HTMLTextAreaElement || (node instanceof HTMLInputElement && node.type === "text")) {
    return line(node.value || node.placeholder, box, style, sheet, frame);
  }
  for (const child of node.childNodes) visit(child, sheet, frame, within);
}

function ground(box, style, sheet, frame, seen) {
  const part = clipped(box, seen);
  const filled = !/^(transparent|rgba\(0, 0, 0, 0\))$/.test(style.backgroundColor);
  const edged = parseFloat(style.borderTopWidth) > 0 && style.borderTopStyle !== "none";
  if (part.width <= 0 || part.height <= 0 || !(filled || edged)) return;
  sheet.append(
    make("rect", {
      x: part.left - frame.left, y: part.top - frame.top, width: part.width, height: part.height, rx: parseFloat(style.borderRadius) || 0,
      fill: filled ? style.backgroundColor : "none", stroke: edged ? style.borderTopColor : "none",
    }),
  );
}

/** Sliders and switches are drawn by the browser itself, so here they are drawn again. */
function control(input, box, sheet, frame) {
  const [x, y] = [box.left - frame.left, box.top - frame.top + box.height / 2];
  if (input.type === "range") {
    const share = (input.value - input.min) / (input.max - input.min || 1);
    sheet.append(make("line", { x1: x, x2: x + box.width, y1: y, y2: y, stroke: css("--rule"), "stroke-width": 4 }), make("circle", { cx: x + 6 + share * (box.width - 12), cy: y, r: 6, fill: css("--mark") }));
  } else {
    sheet.append(make("rect", { x, y: y - 6, width: 12, height: 12, rx: 3, fill: input.checked ? css("--mark") : "none", stroke: css("--faint") }));
  }
}

function image(canvas, box, sheet, frame) {
  if (!canvas.width || !canvas.height) return;
  const at = { x: box.left - frame.left, y: box.top - frame.top, width: box.width, height: box.height };
  sheet.append(make("image", { ...at, href: canvas.toDataURL("image/png"), "image-rendering": "pixelated" }));
}

/** Words that stand on one line become one text. */
function write(node, sheet, frame, seen) {
  if (!node.textContent.trim()) return;
  const style = getComputedStyle(node.parentElement);
  const range = document.createRange();
  /** @type {{top: number, left: number, bottom: number, text: string}[]} */
  const lines = [];
  for (const word of node.textContent.matchAll(/\S+/g)) {
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    const box = range.getBoundingClientRect();
    if (box.bottom < seen.top || box.top > seen.bottom || box.left > seen.right || box.right < seen.left || !box.width) continue;
    const last = lines.at(-1);
    if (last && Math.abs(last.top - box.top) < 2) last.text += ` ${word[0]}`;
    else lines.push({ top: box.top, left: box.left, bottom: box.bottom, text: word[0] });
  }
  for (const one of lines) text(one.text, one.left - frame.left, (one.top + one.bottom) / 2 - frame.top, style, sheet);
}

function line(words, box, style, sheet, frame) {
  text(words, box.left - frame.left + parseFloat(style.paddingLeft), (box.top + box.bottom) / 2 - frame.top, style, sheet);
}

function text(words, x, y, style, sheet) {
  const pass = { "font-size": style.fontSize, "font-family": style.fontFamily, "font-weight": style.fontWeight, fill: style.color };
  sheet.append(make("text", { x, y: y + parseFloat(style.fontSize) * 0.35, ...pass }, words));
}

/** A drawing by itself, with what style sheets say of it written into it. */
function copied(drawing, box, frame) {
  const copy = /** @type {SVGElement} */ (drawing.cloneNode(true));
  const pairs = [[drawing, copy], ...[...drawing.querySelectorAll("*")].map((node, n) => [node, copy.querySelectorAll("*")[n]])];
  for (const [from, to] of pairs) {
    const style = getComputedStyle(from);
    for (const name of DRAWN) to.setAttribute(name, style.getPropertyValue(name));
    to.removeAttribute("class");
    to.removeAttribute("style");
  }
  const at = { x: box.left - frame.left, y: box.top - frame.top, width: box.width, height: box.height };
  for (const [name, value] of Object.entries(at)) copy.setAttribute(name, String(value));
  return copy;
}
