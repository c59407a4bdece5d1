// Drawing: curves as SVG, sentences as HTML, the matrix as one dot a cell on a canvas.

const WIDE = 540, HIGH = 330, LEFT = 40, RIGHT = 140, TOP = 10, BOTTOM = 42;
let most = 1e-9;
for (const group of groups) for (const value of data.many ? group.high : group.mean) most = Math.max(most, value);
if (!data.many) for (let a = 0; a < U; a++) for (let b = a + 1; b < U; b++) most = Math.max(most, ...over(a, b));
const x = (layer) => LEFT + ((WIDE - LEFT - RIGHT) * layer) / (L - 1);
const y = (value) => HIGH - BOTTOM - ((HIGH - TOP - BOTTOM) * value) / most;
const path = (values) => "M" + values.map((value, layer) => `${x(layer).toFixed(1)} ${y(value).toFixed(1)}`).join("L");

function colourOf(a, b) {
  if (groups.length === PAIRS && data.score === null) return groups[place(a, b)].colour;
  return groups.length === 1 || uses[a].sense !== uses[b].sense ? groups[0].colour : groups[1].colour;
}
function drawFrame(svg) {
  const step = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5].find((size) => most / size <= 5) ?? 0.5;
  for (let tick = 0; tick <= most + 1e-9; tick += step) {
    draft("line", svg, { class: "grid", x1: LEFT, x2: WIDE - RIGHT, y1: y(tick), y2: y(tick) });
    draft("text", svg, { x: LEFT - 7, y: y(tick) + 4, "text-anchor": "end" }, String(Number(tick.toPrecision(6))));
  }
  const every = Math.ceil((28 * (L - 1)) / (WIDE - LEFT - RIGHT));
  layers.forEach((name, layer) => {
    const crowded = every > 1 && (layer === 1 || layer === L - 2);
    if (layer === 0 || layer === L - 1 || (!crowded && (L - 1 - layer) % every === 0))
      draft("text", svg, { x: x(layer), y: HIGH - BOTTOM + 20, "text-anchor": "middle" }, name);
  });
  draft("text", svg, { x: (LEFT + WIDE - RIGHT) / 2, y: HIGH - 4, "text-anchor": "middle" }, "layer");
}
function drawCurves() {
  const svg = at("curves"), spot = followed();
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${WIDE} ${HIGH}`);
  svg.classList.toggle("following", spot !== null);
  drawFrame(svg);
  draft("line", svg, { class: "here", x1: x(state.layer), x2: x(state.layer), y1: TOP, y2: HIGH - BOTTOM });
  if (!data.many && groups.length < PAIRS)
    for (let a = 0; a < U; a++)
      for (let b = a + 1; b < U; b++) draft("path", svg, { class: "pair", d: path(over(a, b)), stroke: colourOf(a, b) });
  const ends = [...groups].sort((one, other) => other.mean[L - 1] - one.mean[L - 1]);
  let last = -Infinity;
  for (const { name, colour, mean, low, high } of ends) {
    const back = high.map((value, layer) => `L${x(layer)} ${y(value)}`).reverse().join("");
    if (data.many) draft("path", svg, { class: "band", d: path(low) + back + "Z", fill: colour });
    draft("path", svg, { class: "mean", d: path(mean), stroke: colour });
    last = Math.max(last + 15, y(mean[L - 1]) + 4);
    const label = draft("text", svg, { x: WIDE - RIGHT + 8, y: last }, `${name}  ${mean[L - 1].toFixed(2)}`);
    label.style.fill = colour;
  }
  if (spot === null) return;
  const others = spot.b === null ? uses.map((_, use) => use).filter((use) => use !== spot.a) : [spot.b];
  for (const b of others) draft("path", svg, { class: "led", d: path(over(spot.a, b)) });
}
function drawMatrix() {
  const style = getComputedStyle(document.documentElement), canvas = at("matrix"), image = new ImageData(U, U);
  const rgb = [0, 1, 2, 3, 4].map((n) => style.getPropertyValue(`--shade-${n}`).trim())
    .map((stop) => [1, 3, 5].map((from) => parseInt(stop.slice(from, from + 2), 16)));
  let far = 1e-6;
  for (let a = 0; a < U; a++) for (let b = a + 1; b < U; b++) far = Math.max(far, distance(state.layer, a, b));
  for (let a = 0; a < U; a++)
    for (let b = 0; b < U; b++) {
      const shade = Math.min(3.9999, 4 * (1 - distance(state.layer, a, b) / far)), low = Math.floor(shade);
      const mixed = rgb[low].map((value, channel) => value + (rgb[low + 1][channel] - value) * (shade - low));
      image.data.set([...mixed, 255], 4 * (a * U + b));
    }
  Object.assign(canvas, { width: U, height: U });
  canvas.getContext("2d").putImageData(image, 0, 0);
  canvas.setAttribute("aria-label", `Similarity of ${U} uses in ${layerName(state.layer)}`);
  at("scale").textContent = `Cosine similarity in ${layerName(state.layer)}: from ${(1 - far).toFixed(2)} (pale) to 1 (dark)`;
}
function tell(parent, use) {
  const line = make("p", parent);
  make("span", line, `${uses[use].number}  `).className = "number";
  make("span", line, uses[use].before);
  make("b", line, uses[use].word).style.color = uses[use].hue;
  make("span", line, uses[use].after);
}
function drawDetail() {
  const detail = at("detail"), spot = followed(), layer = state.layer;
  detail.replaceChildren();
  if (spot === null) return void make("p", detail, "Point at a cell of the matrix or at a sentence.");
  if (spot.b !== null) {
    make("p", detail, `Distance ${distance(layer, spot.a, spot.b).toFixed(3)} in ${layerName(layer)}`);
    return void [...new Set([spot.a, spot.b])].forEach((use) => tell(detail, use));
  }
  const ranked = uses.map((_, use) => use).filter((use) => use !== spot.a);
  ranked.sort((one, other) => distance(layer, spot.a, one) - distance(layer, spot.a, other));
  tell(detail, spot.a);
  for (const [name, use] of [["nearest", ranked[0]], ["farthest", ranked.at(-1)]]) {
    make("p", detail, `${name}, ${distance(layer, spot.a, use).toFixed(3)}:`).className = "number";
    tell(detail, use);
  }
}
function draw() {
  const mean = groups.map((group) => `${group.name} ${group.mean[state.layer].toFixed(3)}`).join(" · ");
  const score = data.score === null ? "" : ` · one sense is nearer in ${(100 * data.score[state.layer]).toFixed(0)}% of comparisons`;
  const others = data.others[state.layer] === null ? "" : ` · different words ${data.others[state.layer].toFixed(3)}`;
  at("caption").textContent = `${data.model} · ${layerName(state.layer)}: ${mean}${others}${score}`;
  at("layerShown").textContent = layerName(state.layer);
  at("layer").value = state.layer;
  const spot = followed();
  rows.forEach((row, use) => {
    row.classList.toggle("led", spot !== null && (spot.a === use || spot.b === use));
    row.classList.toggle("pinned", state.pin !== null && (state.pin.a === use || state.pin.b === use));
  });
  drawCurves();
  drawMatrix();
  drawDetail();
}
