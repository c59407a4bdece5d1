/** A tree from left to right: a column a step, the likeliest on top, so that the best way is a straight line where it never lost. */

import { piece } from "./dom.js";

const GAP = 26;

/** @returns {{nodes: {node: object, x: number, y: number, wide: number}[], edges: {curve: string, to: object}[], wide: number, tall: number}} */
export function treeLayout(tree, tall) {
  const most = Math.max(1, ...tree.steps.map((step) => step.length));
  const pitch = Math.max(24, Math.min(42, tall / most));
  const nodes = [];
  const edges = [];
  const at = new Map();
  let x = 6;
  tree.steps.forEach((step, n) => {
    const wide = Math.max(62, ...step.map((node) => piece(node.piece).length * 7.8 + 56));
    step.forEach((node, row) => {
      const y = 18 + row * pitch;
      nodes.push({ node, x, y, wide });
      at.set(`${n}.${node.rank}`, { x, y, wide });
      const from = n ? at.get(`${n - 1}.${node.parent}`) : null;
      if (from) edges.push({ to: node, curve: curve(from.x + from.wide, from.y, x, y) });
    });
    x += wide + GAP;
  });
  const order = { pruned: 0, finished: 1, alive: 1 };
  edges.sort((a, b) => Number(a.to.best) - Number(b.to.best) || order[a.to.fate] - order[b.to.fate]);
  return { nodes, edges, wide: x, tall: 20 + most * pitch };
}

const curve = (x0, y0, x1, y1) => `M${x0},${y0} C${(x0 + x1) / 2},${y0} ${(x0 + x1) / 2},${y1} ${x1},${y1}`;
