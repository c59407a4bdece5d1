// What the reader does: point, focus, pin, choose a head, move the threshold.

const follow = (spot) => {
  if (same(state.hover, spot) || state.hover === spot) return;
  state.hover = spot;
  draw();
};
const pin = (spot) => {
  state.pin = same(state.pin, spot) ? null : spot;
  draw();
};
const choose = (view) => {
  state.view = view;
  draw();
};

function listen(item, spot) {
  item.addEventListener("pointerenter", () => follow(spot));
  item.addEventListener("pointerleave", () => follow(null));
  item.addEventListener("focus", () => follow(spot));
  item.addEventListener("blur", () => follow(null));
  item.addEventListener("click", () => pin(spot));
}
function tokens(names, parent, tag, spot) {
  return names.map((name, n) => {
    const item = make(tag, parent, name);
    item.title = name;
    listen(item, spot(n));
    return item;
  });
}
const keyButtons = tokens(keys, at("keys"), "button", (k) => ({ q: null, k }));
const queryButtons = tokens(queries, at("queries"), "button", (q) => ({ q, k: null }));
const topNames = tokens(keys, at("tops"), "span", (k) => ({ q: null, k }));

function cellUnder(event) {
  const box = at("matrix").getBoundingClientRect();
  const place = (offset, size, count) => Math.min(count - 1, Math.max(0, Math.floor((offset / size) * count)));
  return { q: place(event.clientY - box.top, box.height, Q), k: place(event.clientX - box.left, box.width, K) };
}
at("matrix").addEventListener("pointermove", (event) => follow(cellUnder(event)));
at("matrix").addEventListener("pointerleave", () => follow(null));
at("matrix").addEventListener("click", (event) => pin(cellUnder(event)));
at("least").addEventListener("input", (event) => {
  state.least = Number(event.target.value);
  draw();
});

function buildPicker() {
  const rows = new Map();
  views.forEach((view, n) => {
    if (!rows.has(view.row)) {
      const group = make("div", at("picker"));
      make("div", group, view.row > 0 ? layers[view.row - 1] : "all layers").className = "name";
      rows.set(view.row, make("div", group)).get(view.row).className = "row";
    }
    view.button = make("button", rows.get(view.row));
    view.button.title = view.label;
    view.button.setAttribute("aria-label", view.label);
    view.canvas = make("canvas", view.button);
    make("span", view.button, view.short);
    view.button.addEventListener("click", () => choose(n));
  });
}
// Left and right go through all views; up and down go to the same place in the row above or below.
function moved(key) {
  if (key === "ArrowRight") return Math.min(views.length - 1, state.view + 1);
  if (key === "ArrowLeft") return Math.max(0, state.view - 1);
  const { row, short } = views[state.view], wanted = row + (key === "ArrowDown" ? 1 : -1);
  const there = views.map((view, n) => ({ ...view, n })).filter((view) => view.row === wanted);
  return (there.find((view) => view.short === short) ?? there[0] ?? { n: state.view }).n;
}
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.id === "least") return;
  if (event.key === "Escape") {
    state.pin = state.hover = null;
    draw();
  } else if (event.key === "m") choose(0);
  else if (event.key.startsWith("Arrow")) {
    event.preventDefault();
    choose(moved(event.key));
  }
});

const redraw = () => {
  views.forEach((view) => (view.picture = null)); // painted in the shades of the other theme
  place();
  drawThumbs();
  draw();
};
window.addEventListener("resize", redraw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
buildPicker();
at("choice").hidden = views.length === 1;
redraw();
