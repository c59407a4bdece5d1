/** The views of a model that reads an image in patches, or draws one pixel by pixel, and what each shows in a sentence. */

/** A layer for people: counted from 1, as in papers. */
export const layerName = (n) => `layer ${n + 1}`;
export const share = (value) => (value >= 0.0995 ? `${Math.round(100 * value)} %` : `${(100 * value).toFixed(1)} %`);

/** Views of this model: what it can show. */
export function views({ image }) {
  if (image.ahead) return [["patch", "A pixel"], ["rollout", "Rollout"], ["roles", "Roles of heads"]];
  if (image.latents) return [["class", "The answer"], ["latents", "Latents"], ["rollout", "Rollout"]];
  const reader = image.first ? "Class token" : image.pooled ? "Pooling" : null;
  return [["patch", "A patch"], ...(reader ? [["class", reader]] : []), ["rollout", "Rollout"], ["relevance", "For a class"], ["roles", "Roles of heads"]];
}

const PIXEL = "A pixel was drawn from those before it. The light lies on the pixels that it attended to as it was drawn: click another, or walk with the arrow keys.";
const ABOUT = {
  patch: "A patch is a square of pixels. The light lies where the framed one attends: click another, or walk with the arrow keys.",
  class: "The class is read from one token. The light lies on the patches that it attends to.",
  latents: "A few learned vectors, the latents, read the image, and only they attend to each other. The light lies on the pixels that one of them reads: click another.",
  rollout: "Rollout multiplies the attention of all layers. It says from which patches information could have come, not which of it was used, and it is the same for every class.",
  relevance: "Weights times their gradients, through all layers: the patches that speak for this class and not against it.",
  roles: "How far each head looks, in pixels, and where to on the whole. Click a head to see it over the image.",
};

export const about = (shown, image) =>
  (shown === "patch" && image.ahead ? PIXEL : ABOUT[shown]) ?? "The image as the model was given it; click a patch to see what it attends to.";
