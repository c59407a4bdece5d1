/**
 * Colour maps, made in OKLab so that equal steps of a weight look like equal steps. Lightness alone carries the number, so they
 * survive colour blindness and grey printing; hue only makes them pleasant. The map runs from paper to ink in either theme.
 */

import { css } from "./dom.js";

const LEVELS = 256;

/** OKLCH to sRGB bytes (Ottosson 2020). */
function bytes(lightness, chroma, hue) {
  const a = chroma * Math.cos((hue * Math.PI) / 180);
  const b = chroma * Math.sin((hue * Math.PI) / 180);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const t = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * t,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * t,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * t,
  ];
  return linear.map((x) => {
    const clear = Math.min(1, Math.max(0, x));
    return Math.round(255 * (clear <= 0.0031308 ? 12.92 * clear : 1.055 * clear ** (1 / 2.4) - 0.055));
  });
}

const mix = (from, to, t) => from + (to - from) * t;

/** From 0 to 1: paper to deep blue, or night to pale blue. @returns {Uint8ClampedArray} LEVELS × 4 */
function sequential(dark) {
  const map = new Uint8ClampedArray(LEVELS * 4);
  for (let level = 0; level < LEVELS; level++) {
    const t = level / (LEVELS - 1);
    const lightness = dark ? mix(0.225, 0.965, t) : mix(0.975, 0.27, t);
    const chroma = dark ? 0.022 + 0.1 * Math.sin(Math.PI * 0.9 * t ** 0.8) : 0.006 + 0.122 * Math.sin(Math.PI * 0.83 * t ** 1.1);
    map.set([...bytes(lightness, chroma, dark ? mix(256, 238, t) : mix(240, 257, t)), 255], level * 4);
  }
  return map;
}

/** From −1 to 1: orange, paper, blue. */
function diverging(dark) {
  const map = new Uint8ClampedArray(LEVELS * 4);
  for (let level = 0; level < LEVELS; level++) {
    const t = (2 * level) / (LEVELS - 1) - 1;
    const size = Math.abs(t);
    const lightness = dark ? mix(0.24, 0.82, size) : mix(0.975, 0.42, size);
    const hue = t < 0 ? 48 : 250;
    map.set([...bytes(lightness, 0.15 * size ** 0.8, hue), 255], level * 4);
  }
  return map;
}

const maps = {
  light: { weights: sequential(false), signed: diverging(false) },
  dark: { weights: sequential(true), signed: diverging(true) },
};

export const theme = () => (css("--theme") === "dark" ? "dark" : "light");

/** The bytes of a map, level by level. */
export const levels = (kind = "weights") => maps[theme()][kind];

/** One colour. @param {number} value 0 to 1, or −1 to 1 where signed */
export function colour(value, kind = "weights") {
  const share = kind === "signed" ? (value + 1) / 2 : value;
  const level = Math.round(Math.min(1, Math.max(0, share)) * (LEVELS - 1));
  const [r, g, b] = maps[theme()][kind].subarray(level * 4, level * 4 + 3);
  return `rgb(${r} ${g} ${b})`;
}

/** Whether words on a colour should be light: decided by the colour's own lightness. */
export function onColour(value, kind = "weights") {
  const size = kind === "signed" ? Math.abs(value) : value;
  return size > 0.52 === (theme() === "light") ? "#ffffff" : "#0d1722";
}

/** Okabe and Ito's colours, for kinds that have no order. */
const KINDS = ["#0072b2", "#c98500", "#009e73", "#c0609a", "#3f9ad1", "#d55e00", "#8f8300", "#757575"];
const AT_NIGHT = ["#4fa8e0", "#f0b13c", "#3cc79c", "#e09ac4", "#8fcdf2", "#f58a4b", "#d8cb4a", "#a3a3a3"];
export const kind = (n) => (theme() === "dark" ? AT_NIGHT : KINDS)[n % KINDS.length];
