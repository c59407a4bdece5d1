/** A forecast: the window that was read, the forecast with its interval, what came, and below it what the tokens attend to. */

import { colour } from "./colour.js";
import { fill, h, num, s, say, weight } from "./dom.js";
import { number, set, state } from "./state.js";

const LEFT = 64, RIGHT = 12, TALL = 230, MAP = 150, LABEL = 105; // pixels
const short = (name) => (name.length > 24 ? `${name.slice(0, 23)}…` : name);

export function series(root) {
  const line = h("div", { class: "verdict" });
  const name = h("select", { id: "series-name", "aria-label": "Series and channel" });
  const row = h("input", { type: "range", id: "series-row", "aria-label": "Where the window ends", step: 1 });
  const when = h("span", { class: "number muted", id: "series-when" });
  const part = h("select", { id: "series-part", "aria-label": "Part of the model" });
  const layer = h("select", { id: "series-layer", "aria-label": "Layer" });
  const plot = h("div", { class: "series-plot" });
  const maps = h("div", { class: "series-maps" });
  const under = h("p", { id: "told" });
  const control = (label, ...nodes) => h("label", { class: "control" }, h("span", { text: label }), ...nodes);
  const node = h("section", { class: "card series" },
    h("div", { class: "strip" }, control("series", name), control("window ends at", row), when, control("attention of", part), control("layer", layer)),
    plot, maps, under, h("p", { class: "caution", text: "Weight is not cause: a forecast need not hang on what was attended to." }));
  let now = null, card = null;

  const chosen = () => name.value + "@" + row.value;
  name.addEventListener("change", () => {
    bounds();
    set({ text: chosen(), q: null }, { step: true });
  });
  row.addEventListener("change", () => set({ text: chosen(), q: null }));
  part.addEventListener("change", () => set({ part: part.value, layer: null, q: null }));
  layer.addEventListener("change", () => set({ layer: layer.value, q: null }));

  function bounds() {
    const [first, last] = card.series.rows[card.series.names.indexOf(name.value)] ?? [0, 0];
    Object.assign(row, { min: String(first), max: String(last) });
  }

  async function update(pass, current, given) {
    card = given;
    const parts = [...new Set(pass.data.attentions.map((one) => (one.name.endsWith(".cross") ? "cross" : one.name.split(".")[0])))];
    const asked = parts.includes(state().part) ? state().part : parts.includes("cross") ? "cross" : parts[0];
    const layers = pass.data.attentions.filter((one) => (one.name.endsWith(".cross") ? "cross" : one.name.split(".")[0]) === asked).length;
    const at = number("layer", -1);
    const found = await pass.ask("series-attention", { part: asked, ...(at >= 0 && at < layers ? { layer: at } : {}) });
    if (!current()) return;
    now = found;
    if (name.options.length !== card.series.names.length) fill(name, ...card.series.names.map((one) => h("option", { value: one, text: one })));
    const text = pass.asked.text, mark = text.lastIndexOf("@");
    name.value = text.slice(0, mark);
    bounds();
    row.value = text.slice(mark + 1);
    const last = found.series.dates?.[card.series.lookback - 1]?.replace("T", " ").replace(/:00$/, "");
    when.textContent = `row ${Number(row.value).toLocaleString("en")}${last ? `, ${last}` : ""}`;
    fill(part, ...parts.map((one) => h("option", { value: one, text: one })));
    part.value = asked;
    fill(layer, h("option", { value: "", text: "each, mean of heads" }), ...Array.from({ length: layers }, (_, n) => h("option", { value: String(n), text: `${n}, head by head` })));
    layer.value = at >= 0 && at < layers ? String(at) : "";
    fill(line, h("p", { class: "says" }, h("b", { text: found.title })), h("span", { class: "muted", text: found.caption }));
    draw();
  }

  const wide = () => Math.max(420, (plot.clientWidth || root.clientWidth - 40) - 2);
  const between = () => now.key_spans === null;
  const picked = () => Math.min(number("q", -1), now.queries.length - 1);
  const mean = (query) => now.keys.map((_, k) => now.weights.reduce((sum, map) => sum + map[query][k], 0) / now.weights.length);

  function draw() {
    const width = wide(), { series: window } = now;
    const { lookback, horizon } = card.series, times = lookback + horizon;
    const x = (time) => LEFT + (time / times) * (width - LEFT - RIGHT);
    fill(plot, chart(window, x, width, lookback));
    fill(maps, ...now.weights.map((map, n) => (between() ? matrix(map, now.names[n]) : strip(map, now.names[n], x, width))));
    tell();
  }

  function chart({ past, forecast, interval, actual, channel }, x, width, lookback) {
    const of = (rows) => rows.map((values) => values[channel]);
    const [before, ahead] = [of(past), of(forecast)];
    const came = actual && of(actual), sides = interval && interval.map(of);
    const all = [...before, ...ahead, ...(came ?? []), ...(sides ?? []).flat()];
    const [low, high] = [Math.min(...all), Math.max(...all)], room = (high - low || 1) * 0.06;
    const y = (value) => TALL - 22 - ((value - low + room) / (high - low + 2 * room || 1)) * (TALL - 34);
    const way = (values, from) => values.map((value, n) => `${n ? "L" : "M"}${x(from + n + 0.5).toFixed(1)},${y(value).toFixed(1)}`).join("");
    const drawing = s("svg", { width, height: TALL, class: "forecast", role: "img", "aria-label": `${now.title}: past, forecast${sides ? " with interval" : ""}${came ? " and what came" : ""}` });
    const at = picked();
    if (at >= 0 && !between()) {
      const shares = mean(at), most = Math.max(...shares, 1e-9);
      now.key_spans.forEach(([begin, end], k) => {
        const until = now.key_spans[k + 1]?.[0] ?? end;
        drawing.append(s("rect", { class: "attended", x: x(begin), y: 8, width: x(Math.max(until, begin + 1)) - x(begin), height: TALL - 30, opacity: (0.5 * shares[k]) / most }));
      });
      const [begin, end] = now.query_spans[at];
      drawing.append(s("rect", { class: "asking", x: x(begin), y: 8, width: x(end) - x(begin), height: TALL - 30 }));
    }
    for (const value of [low, (low + high) / 2, high]) drawing.append(s("line", { class: "rule", x1: LEFT, x2: width - RIGHT, y1: y(value), y2: y(value) }), s("text", { class: "small", x: LEFT - 6, y: y(value), "font-size": 10, "text-anchor": "end", "dominant-baseline": "central", text: num(value, 2) }));
    if (sides) drawing.append(s("path", { class: "interval", d: `${way(sides[0], lookback)}${way(sides[1], lookback).replace("M", "L").split(/(?=[ML])/).reverse().join("").replaceAll("M", "L")}Z` }));
    drawing.append(s("path", { class: "past", d: way(before, 0) }));
    if (came) drawing.append(s("path", { class: "past came", d: way([before.at(-1), ...came], lookback - 1) }));
    drawing.append(s("path", { class: "ahead", d: way(ahead, lookback) }));
    drawing.append(s("line", { class: "mark", x1: x(lookback), x2: x(lookback), y1: 8, y2: TALL - 22 }));
    const narrow = width - RIGHT - x(lookback) < 1.9 * LABEL;
    drawing.append(s("text", { class: "small", x: LEFT, y: TALL - 6, "font-size": 10, text: label(0) }), s("text", { class: "small", x: narrow ? Math.min(x(lookback), width - RIGHT - LABEL) : x(lookback), y: TALL - 6, "font-size": 10, "text-anchor": narrow ? "end" : "middle", text: label(lookback) }), s("text", { class: "small", x: width - RIGHT, y: TALL - 6, "font-size": 10, "text-anchor": "end", text: label(card.series.lookback + card.series.horizon - 1) }));
    return drawing;
  }
  const label = (time) => now.series.dates?.[time]?.replace("T", " ").slice(0, 16) ?? `${time - card.series.lookback + 1}`;

  /** A map below the series: a row a query, each key where its times are. */
  function strip(map, title, x, width) {
    const canvas = h("canvas", { role: "img", "aria-label": `${title}: ${now.queries.length} by ${now.keys.length} weights`, width, height: MAP });
    const context = canvas.getContext("2d"), tall = MAP / map.length, most = Math.max(...map.flat(), 1e-9);
    map.forEach((weights, q) => weights.forEach((value, k) => {
      const [begin, end] = now.key_spans[k], until = now.key_spans[k + 1]?.[0] ?? end;
      context.fillStyle = colour(value / most);
      context.fillRect(x(begin), q * tall, x(Math.max(until, begin + 1)) - x(begin) + 0.5, tall + 0.5);
    }));
    const at = picked();
    if (at >= 0) {
      context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--mark") || "#b8541c";
      context.lineWidth = 2;
      context.strokeRect(LEFT + 1, at * tall, width - LEFT - RIGHT - 2, Math.max(2, tall));
    }
    canvas.addEventListener("click", (event) => set({ q: Math.min(map.length - 1, Math.max(0, Math.floor((event.offsetY / canvas.clientHeight) * map.length))) }));
    return h("figure", {}, h("figcaption", { class: "muted", text: title }), canvas);
  }

  /** Weights between channels, which have no place in time. */
  function matrix(map, title) {
    const most = Math.max(...map.flat(), 1e-9), at = picked();
    const head = h("tr", {}, h("th", {}), ...now.keys.map((key) => h("th", { scope: "col", text: short(key) })));
    const rows = map.map((weights, q) => h("tr", { "aria-selected": String(q === at), onclick: () => set({ q }) }, h("th", { scope: "row", text: short(now.queries[q]) }), ...weights.map((value) => {
      const cell = h("td", { title: weight(value) });
      cell.style.background = colour(value / most);
      return cell;
    })));
    return h("figure", {}, h("figcaption", { class: "muted", text: title }), h("table", { class: "channels" }, head, ...rows));
  }

  function tell() {
    const at = picked();
    if (at < 0) under.textContent = `Choose a row to see what it attends to; the maps have ${now.queries.length} rows from the first on.`;
    else {
      const shares = mean(at), order = shares.map((share, k) => [share, k]).sort((a, b) => b[0] - a[0]).slice(0, 3);
      under.textContent = `${now.queries[at]} attends most to ${order.map(([share, k]) => `${now.keys[k]} (${weight(share)})`).join(", ")}.`;
    }
    say(`${now.title}. ${under.textContent}`);
  }

  const move = (by) => now && set({ q: Math.max(0, Math.min(now.queries.length - 1, picked() + by)) });
  const slide = (by) => {
    if (!now) return;
    row.value = String(Number(row.value) + by);
    set({ text: chosen(), q: null });
  };
  return {
    node,
    line,
    update,
    keys: () => [
      { key: "ArrowDown", shown: "↓", description: "next row", action: () => move(1) },
      { key: "ArrowUp", shown: "↑", description: "row before", action: () => move(-1) },
      { key: "ArrowRight", shown: "→", description: "a horizon later", action: () => slide(card.series.horizon) },
      { key: "ArrowLeft", shown: "←", description: "a horizon earlier", action: () => slide(-card.series.horizon) },
    ],
    data: () => now,
  };
}
