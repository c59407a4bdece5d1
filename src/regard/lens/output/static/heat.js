// The image lit by a word's attention. Words are shown through textContent alone; nothing here builds markup from data.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const { words, image, rows, columns } = data;
const CELLS = rows * columns, DARK = 0.22, TINT = 0.3, GLOW = [255, 150, 20];
const at = (id) => document.getElementById(id);
const decoded = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
const pixels = decoded(image.pixels), bytes = decoded(data.maps);
const weight = (word, cell) => {
  const index = 2 * (word * CELLS + cell);
  return (bytes[index] | (bytes[index + 1] << 8)) / data.steps;
};
const mapOf = (word) => Float32Array.from({ length: CELLS }, (_, cell) => weight(word, cell));
const clamp = (value, most) => Math.max(0, Math.min(most, value));

// Between the middles of cells light changes evenly.
function light(map, y, x) {
  const row = clamp(((y + 0.5) / image.rows) * rows - 0.5, rows - 1), column = clamp(((x + 0.5) / image.columns) * columns - 0.5, columns - 1);
  const top = Math.floor(row), left = Math.floor(column), down = row - top, across = column - left;
  const lower = Math.min(top + 1, rows - 1), right = Math.min(left + 1, columns - 1);
  const upper = map[top * columns + left] * (1 - across) + map[top * columns + right] * across;
  return upper * (1 - down) + (map[lower * columns + left] * (1 - across) + map[lower * columns + right] * across) * down;
}

function draw(canvas, word) {
  canvas.width = image.columns;
  canvas.height = image.rows;
  const context = canvas.getContext("2d"), picture = context.createImageData(image.columns, image.rows);
  const map = word === null ? null : mapOf(word), most = map && Math.max(...map);
  for (let y = 0, pixel = 0; y < image.rows; y++)
    for (let x = 0; x < image.columns; x++, pixel++) {
      const share = map ? light(map, y, x) / most : 0;
      for (let colour = 0; colour < 3; colour++) {
        const bright = pixels[3 * pixel + colour] * (map ? DARK + (1 - DARK) * share : 1);
        picture.data[4 * pixel + colour] = map ? bright + TINT * share * (GLOW[colour] - bright) : bright;
      }
      picture.data[4 * pixel + 3] = 255;
    }
  context.putImageData(picture, 0, 0);
}

let chosen = null;
function choose(word) {
  chosen = word;
  draw(at("large"), word);
  [...at("words").children].forEach((button, n) => button.setAttribute("aria-pressed", String(n === word)));
  [...at("sheet").children].forEach((figure, n) => figure.classList.toggle("chosen", n === word));
  const map = word === null ? null : mapOf(word), peak = map && map.indexOf(Math.max(...map));
  at("caption").textContent = map
    ? `${words[word]}: ${map[peak].toFixed(2)} at row ${Math.floor(peak / columns) + 1}, column ${(peak % columns) + 1} of ${rows} × ${columns} cells`
    : `the image, ${rows} × ${columns} cells; for each word the ${data.told}`;
  at("large").setAttribute("aria-label", at("caption").textContent);
}

words.forEach((word, n) => {
  const button = at("words").appendChild(document.createElement("button"));
  button.textContent = word;
  button.addEventListener("mouseenter", () => choose(n));
  button.addEventListener("focus", () => choose(n));
  const figure = at("sheet").appendChild(document.createElement("figure"));
  draw(figure.appendChild(document.createElement("canvas")), n);
  figure.appendChild(document.createElement("figcaption")).textContent = word;
  figure.addEventListener("mouseenter", () => choose(n));
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || !words.length) return;
  if (event.key === "Escape") choose(null);
  else if (event.key === "ArrowRight") choose(chosen === null ? 0 : Math.min(words.length - 1, chosen + 1));
  else if (event.key === "ArrowLeft") choose(chosen === null ? words.length - 1 : Math.max(0, chosen - 1));
});
choose(null);
