/** The screens, in the order of their keys. Each is mounted once when it is opened, and updated whenever the view changes. */

import { ablate } from "./ablate.js";
import { arithmetic } from "./arithmetic.js";
import { atlas } from "./atlas.js";
import { beam } from "./beam.js";
import { compare } from "./compare.js";
import { head } from "./head.js";
import { layers } from "./layers.js";
import { run } from "./run.js";
import { words } from "./words.js";

export const SCREENS = [run, atlas, head, beam, ablate, arithmetic, layers, words, compare];
