// Drawing: the matrix and its thumbnails on canvas, the lines as SVG, tokens and numbers as HTML.

function shades() {
  const style = getComputedStyle(document.documentElement);
  const stops = [0, 1, 2, 3, 4].map((n) => style.getPropertyValue(`--shade-${n}`).trim());
  const rgb = stops.map((stop) => [1, 3, 5].map((from) => parseInt(stop.slice(from, from + 2), 16)));
  return (share) => {
    const place = Math.min(3.9999, Math.max(0, share * 4)), low = Math.floor(place), part = place - low;
    return rgb[low].map((value, channel) => value + (rgb[low + 1][channel] - value) * part);
  };
}
// The greatest weight of a block stands for it, so that a sharp line survives in a small picture.
function paint(canvas, weights, most, side) {
  const wide = Math.min(K, side), high = Math.min(Q, side), shade = shades();
  const pooled = new Float64Array(wide * high);
  for (let q = 0; q < Q; q++)
    for (let k = 0; k < K; k++) {
      const cell = Math.floor((q * high) / Q) * wide + Math.floor((k * wide) / K);
      pooled[cell] = Math.max(pooled[cell], weights[q * K + k]);
    }
  const image = new ImageData(wide, high);
  pooled.forEach((weight, cell) => image.data.set([...shade(weight / most), 255], 4 * cell));
  Object.assign(canvas, { width: wide, height: high });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}
function drawMatrix(view, most) {
  const canvas = at("matrix"), dots = window.devicePixelRatio || 1;
  view.picture ??= paint(document.createElement("canvas"), weightsOf(view), most, Infinity);
  Object.assign(canvas, { width: K * g.pitch * dots, height: Q * g.pitch * dots });
  const pen = canvas.getContext("2d"), spot = followed();
  pen.imageSmoothingEnabled = false;
  pen.drawImage(view.picture, 0, 0, canvas.width, canvas.height);
  canvas.setAttribute("aria-label", `Matrix of weights, ${Q} queries by ${K} keys, greatest ${most.toFixed(2)}`);
  if (!spot) return;
  const [left, width] = spot.k === null ? [0, K] : [spot.k, 1], [top, height] = spot.q === null ? [0, Q] : [spot.q, 1];
  pen.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--mark");
  pen.lineWidth = 2 * dots;
  const unit = g.pitch * dots;
  pen.strokeRect(left * unit + dots, top * unit + dots, width * unit - 2 * dots, height * unit - 2 * dots);
}
const strongest = (weights, q) => {
  let best = 0;
  for (let k = 1; k < K; k++) if (weights[q * K + k] > weights[q * K + best]) best = k;
  return best;
};
function drawLines(weights, most) {
  const spot = followed(), shown = [];
  weights.forEach((weight, cell) => {
    const q = Math.floor(cell / K), k = cell % K, led = spot !== null && touches(spot, q, k);
    if (weight >= state.least && weight > 0) shown.push({ weight, q, k, led });
  });
  const cut = shown.length > MOST_LINES ? ` · the ${MOST_LINES} strongest of ${shown.length} lines` : "";
  at("caption").textContent += cut;
  // strong and followed lines last: they lie on top, and the cut falls on the weak ones
  shown.sort((a, b) => a.led - b.led || a.weight - b.weight);
  const hues = queries.map((_, q) => colours[strongest(weights, q)]);
  at("lines").replaceChildren(...shown.slice(-MOST_LINES).map(({ weight, q, k, led }) => {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    const [a, b, middle] = [g.keyY(k), g.queryY(q), LINES_WIDTH / 2];
    path.setAttribute("d", `M4 ${a}C${middle} ${a} ${middle} ${b} ${LINES_WIDTH - 4} ${b}`);
    path.setAttribute("stroke", hues[q]);
    path.setAttribute("stroke-width", 0.6 + 3.6 * (weight / most));
    path.setAttribute("stroke-opacity", spot && !led ? 0.06 : Math.min(1, (led ? 0.28 : 0.08) + 0.85 * (weight / most) ** 0.85));
    Object.assign(path.dataset, { q, k });
    return path;
  }));
}
function drawTokens(weights) {
  const spot = followed();
  const mark = (items, side, other) => items.forEach((item, n) => {
    item.classList.toggle("led", spot !== null && spot[side] === n);
    const weight = spot === null || spot[other] === null ? 0 : side === "k" ? weights[spot.q * K + n] : weights[n * K + spot.k];
    item.classList.toggle("met", weight > 0 && weight >= state.least);
    if (item.tagName === "BUTTON") item.setAttribute("aria-pressed", String(state.pin !== null && state.pin[side] === n));
  });
  mark(keyButtons, "k", "q");
  mark(topNames, "k", "q");
  mark(queryButtons, "q", "k");
}
function drawDetail(weights) {
  const spot = followed(), detail = at("detail");
  detail.replaceChildren();
  if (!spot) return void make("p", detail, "Point at a token, or move to it with the Tab key, to see its weights.");
  if (spot.q !== null && spot.k !== null)
    return void make("p", detail, `${queries[spot.q]} → ${keys[spot.k]}: ${weights[spot.q * K + spot.k].toFixed(3)}`);
  const row = spot.q !== null, names = row ? keys : queries;
  make("p", detail, row ? `${queries[spot.q]} looks at` : `${keys[spot.k]} is looked at by`);
  const ranked = names.map((name, n) => ({ name, weight: weights[row ? spot.q * K + n : n * K + spot.k] }));
  ranked.sort((a, b) => b.weight - a.weight).slice(0, 6).forEach(({ name, weight }) => {
    const bar = make("div", detail);
    bar.className = "bar";
    make("b", bar, name);
    make("i", bar).style.width = `${100 * weight}%`;
    make("span", bar, weight.toFixed(3));
  });
}
// One scale for all thumbnails: a head that spreads its attention looks pale.
function drawThumbs() {
  const most = views.reduce((greatest, view) => weightsOf(view).reduce((a, b) => Math.max(a, b), greatest), 0);
  const share = Math.floor(at("side").clientWidth / (heads + 1)) - 12;
  const wide = g.stacked ? 28 : Math.min(44, Math.max(28, share));
  for (const view of views) {
    paint(view.canvas, weightsOf(view), most, 64);
    Object.assign(view.canvas.style, { width: `${wide}px`, height: `${wide * Math.min(1.4, Math.max(0.4, Q / K))}px` });
  }
}
function draw() {
  const view = views[state.view], weights = weightsOf(view), most = weights.reduce((a, b) => Math.max(a, b), 0);
  at("caption").textContent = `${view.label} · greatest weight ${most.toFixed(2)}`;
  at("leastShown").textContent = state.least.toFixed(2);
  drawMatrix(view, most);
  drawLines(weights, most);
  drawTokens(weights);
  drawDetail(weights);
  views.forEach((other, n) => other.button.setAttribute("aria-pressed", String(n === state.view)));
}
