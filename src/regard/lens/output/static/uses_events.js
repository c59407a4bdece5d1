// What the reader does: point, focus, pin, choose a layer.

const follow = (spot) => {
  if (same(state.hover, spot) || state.hover === spot) return;
  state.hover = spot;
  draw();
};
const pin = (spot) => {
  state.pin = same(state.pin, spot) ? null : spot;
  draw();
};
const choose = (layer) => {
  state.layer = Math.min(L - 1, Math.max(0, layer));
  draw();
};
const pitch = Math.max(15, Math.min(28, Math.floor(900 / U)));
const rows = uses.map((use, n) => {
  const row = make("div", at("lines"));
  row.className = "row";
  row.tabIndex = 0;
  Object.assign(row.style, { height: `${pitch}px`, lineHeight: `${pitch}px` });
  for (const [name, text] of [["number", use.number], ["before", use.before], ["word", use.word], ["after", use.after]])
    make("span", row, text).className = name;
  row.querySelector(".word").style.color = use.hue;
  if (use.sense) row.title = use.sense;
  const spot = { a: n, b: null };
  for (const [name, act] of Object.entries({ pointerenter: () => follow(spot), pointerleave: () => follow(null),
    focus: () => follow(spot), blur: () => follow(null), click: () => pin(spot) })) row.addEventListener(name, act);
  return row;
});
Object.assign(at("matrix").style, { width: `${pitch * U}px`, height: `${pitch * U}px` });
at("layer").max = L - 1;

function cellUnder(event) {
  const box = at("matrix").getBoundingClientRect();
  const cell = (offset, size) => Math.min(U - 1, Math.max(0, Math.floor((offset / size) * U)));
  return { a: cell(event.clientY - box.top, box.height), b: cell(event.clientX - box.left, box.width) };
}
at("matrix").addEventListener("pointermove", (event) => follow(cellUnder(event)));
at("matrix").addEventListener("pointerleave", () => follow(null));
at("matrix").addEventListener("click", (event) => pin(cellUnder(event)));
at("layer").addEventListener("input", (event) => choose(Number(event.target.value)));
at("curves").addEventListener("click", (event) => {
  const box = at("curves").getBoundingClientRect(), across = ((event.clientX - box.left) / box.width) * WIDE;
  choose(Math.round(((across - LEFT) / (WIDE - LEFT - RIGHT)) * (L - 1)));
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.id === "layer") return;
  if (event.key === "Escape") {
    state.pin = state.hover = null;
    draw();
  } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    event.preventDefault();
    choose(state.layer + (event.key === "ArrowRight" ? 1 : -1));
  }
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
