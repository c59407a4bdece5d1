/** The screens, in the order of their keys. Each is mounted once when it is opened, and updated whenever the view changes. */

import { ablate } from "./ablate.js";
import { arithmetic } from "./arithmetic.js";
import { atlas } from "./atlas.js";
import { beam } from "./beam.js";
import { compare } from "./compare.js";
import { head, mount } from "./head.js";
import { layers } from "./layers.js";
import { run } from "./run.js";
import { words } from "./words.js";
import { longView } from "../long.js";

export const SCREENS = [run, atlas, { ...head, mount: (root) => mount(root, { longView }) }, beam, ablate, arithmetic, layers, words, compare];
