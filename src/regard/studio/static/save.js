/** The view as a file: SVG, PNG, JSON, or one HTML page that needs no network and runs nothing. */

import { h, say } from "./dom.js";
import { pictureOf } from "./picture.js";
import { address, state } from "./state.js";

const svgText = () => new XMLSerializer().serializeToString(pictureOf(document.getElementById("screen")));

/** All that the view was drawn from, and the address that opens it again. */
function jsonOf(data) {
  const { screen, ...rest } = state();
  return { format: "regard.studio.1", screen, address: address(state()), state: rest, data };
}

async function pngOf(text) {
  const link = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  const image = new Image();
  image.src = link;
  await image.decode();
  const canvas = h("canvas");
  canvas.width = image.width * 2;
  canvas.height = image.height * 2;
  const context = canvas.getContext("2d");
  context.scale(2, 2);
  context.drawImage(image, 0, 0);
  URL.revokeObjectURL(link);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

const ESCAPES = { "<": "&lt;", ">": "&gt;", "&": "&amp;", '"': "&quot;" };
const escaped = (text) => text.replace(/[<>&"]/g, (one) => ESCAPES[one]);

/** The picture is an image inside of it, which no browser executes; the numbers are data in which no character can end it. */
function htmlOf(title, text, data) {
  const picture = `data:image/svg+xml;base64,${btoa(Array.from(new TextEncoder().encode(text), (b) => String.fromCharCode(b)).join(""))}`;
  const inert = JSON.stringify(data).replace(/[<>&\u2028\u2029]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>${escaped(title)}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:">
</head><body><h1>${escaped(title)}</h1><img alt="${escaped(title)}" src="${picture}">
<p>Regard studio, ${escaped(data.screen)}. Attention weight is not cause. The numbers are in this file, as JSON.</p>
<script type="application/json" id="data">${inert}</script></body></html>`;
}

function download(name, blob) {
  const link = URL.createObjectURL(blob);
  const anchor = h("a", { href: link, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(link), 10_000);
}

/** @param {"svg"|"png"|"json"|"html"} kind @param {object} data */
export async function save(kind, data) {
  const { screen, text = "" } = state();
  const name = `regard-${screen}.${kind}`;
  if (kind === "json") download(name, new Blob([JSON.stringify(jsonOf(data), null, 1)], { type: "application/json" }));
  if (kind === "svg") download(name, new Blob([svgText()], { type: "image/svg+xml" }));
  if (kind === "png") download(name, await pngOf(svgText()));
  if (kind === "html") download(name, new Blob([htmlOf(`${screen}: ${text}`, svgText(), jsonOf(data))], { type: "text/html" }));
  say(`saved ${name}`);
}

const KINDS = [["svg", "picture that scales, words as words"], ["png", "picture, twice the pixels"], ["json", "every number, and the address of this view"], ["html", "one page with both, no network"]];

/** The menu that E opens. */
export function exportMenu(data) {
  const box = h("dialog", { class: "export", "aria-label": "Export" }, h("h2", { text: "Export what is seen" }));
  KINDS.forEach(([kind, description], n) => {
    const take = () => {
      box.close();
      save(kind, data());
    };
    const row = h("button", { type: "button", class: "row", "data-kind": kind, onclick: take, autofocus: n === 0 }, h("b", { text: kind.toUpperCase() }), h("span", { text: description }));
    box.append(row);
  });
  box.append(h("form", { method: "dialog" }, h("button", { text: "Close" })));
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
}
