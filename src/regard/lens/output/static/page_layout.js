// Where things stand: pixels for tokens, lines and matrix, from the width of the window.

const measure = document.createElement("canvas").getContext("2d");
let g = null;
const widest = (names, size) => {
  measure.font = `${size}px ${getComputedStyle(document.body).fontFamily}`;
  return Math.min(190, Math.ceil(Math.max(...names.map((name) => measure.measureText(name).width))) + 16);
};
function plan() {
  const room = at("main").clientWidth;
  const fit = (width) => Math.min(36, Math.floor((width - widest(keys, 15) - widest(queries, 15) - LINES_WIDTH - 30) / K));
  const beside = fit(room - SIDE - 48);
  const stacked = beside < 13;
  const pitch = stacked ? Math.max(13, fit(room)) : beside;
  const size = Math.min(16, Math.max(10, Math.round(pitch * 0.66)));
  const keyWidth = widest(keys, size), queryWidth = widest(queries, size);
  const top = Math.ceil(keyWidth * 0.87) + 14, tall = pitch * Math.max(Q, K);
  const left = keyWidth + LINES_WIDTH + queryWidth + 6;
  const y0 = (count) => top + (tall - count * pitch) / 2;
  g = { stacked, pitch, size, keyWidth, queryWidth, top, left, y0, width: left + K * pitch + keyWidth / 2, height: top + tall };
  g.keyY = (k) => y0(K) + (k + 0.5) * pitch;
  g.queryY = (q) => y0(Q) + (q + 0.5) * pitch;
}
const put = (element, left, top, width, height) => {
  for (const [name, value] of Object.entries({ left, top, width, height })) element.style[name] = `${value}px`;
};
function place() {
  plan();
  at("main").classList.toggle("stacked", g.stacked);
  at("stage").style.width = `${g.width}px`;
  at("stage").style.height = `${g.height + 4}px`;
  at("stage").style.fontSize = `${g.size}px`;
  put(at("lines"), g.keyWidth, 0, LINES_WIDTH, g.height);
  put(at("matrix"), g.left, g.y0(Q), K * g.pitch, Q * g.pitch);
  keyButtons.forEach((button, k) => put(button, 0, g.keyY(k) - g.pitch / 2, g.keyWidth, g.pitch));
  const right = g.keyWidth + LINES_WIDTH;
  queryButtons.forEach((button, q) => put(button, right, g.queryY(q) - g.pitch / 2, g.queryWidth, g.pitch));
  topNames.forEach((name, k) => put(name, g.left + (k + 0.5) * g.pitch, g.y0(Q) - 6 - g.size * 0.75, g.keyWidth, g.size * 1.5));
  [...keyButtons, ...queryButtons, ...topNames].forEach((item) => (item.style.lineHeight = item.style.height));
}
