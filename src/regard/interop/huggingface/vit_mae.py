"""Masked autoencoders as they are public: `vit_mae` of transformers, encoder and decoder, or the encoder alone.

`ViTMAEForPreTraining` is a `vit_mae` here. `ViTMAEModel` has the encoder alone, which is a `vit` with the positions that are
stored. Those of a `vit_mae` are fixed waves on both sides, which are not trained: a folder with other positions is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from regard.core.errors import UserError
from regard.families.vit import ViTConfig
from regard.families.vit_mae import ViTMAEConfig
from regard.interop.huggingface.mapping import Blocks, Config, Entry, Meaning, Number, ignored, linear, norm
from regard.interop.huggingface.vit import BLOCK, KEYS, VIT, computed, vit_sizes, waves

STORED = "embeddings.position_embeddings"
RESTORED = "decoder.decoder_pos_embed"
CLOSE = 1e-4  # between waves of other programs and ours
OF_DECODER = {"D": "W", "3I": "3W", "I": "W", "F": "X"}  # sizes of the encoder's block as the decoder has them
ENCODER_KEYS: dict[str, Meaning] = KEYS | ignored("mask_ratio norm_pix_loss")  # which the objective has
DECODER_KEYS = ("decoder_hidden_size", "decoder_num_hidden_layers", "decoder_num_attention_heads", "decoder_intermediate_size")


def _of_decoder(entry: Entry) -> Entry:
    return replace(entry, shape=tuple(OF_DECODER[letter] for letter in entry.shape), inside=False)


def _as_stored(config: Config, heads: Sequence[str], tensors: Mapping[str, Tensor]) -> Config:
    """Check that positions are the waves that we compute."""
    assert isinstance(config, ViTMAEConfig)
    for name, width in ((STORED, config.width), (RESTORED, config.decoder_width)):
        expected, found = waves(config, width), tensors.get(name)
        if found is not None and (found.shape != expected.shape or not (found.float() - expected).abs().max() <= CLOSE):
            raise UserError(
                f"{name} is not the table of waves of a masked autoencoder; where it was trained, open the encoder as a ViTModel."
            )
    return config


def _computed(config: Config, prefix: str) -> dict[str, Tensor]:
    assert isinstance(config, ViTMAEConfig)
    return {**computed(config, prefix), RESTORED: waves(config, config.decoder_width)}


def _sizes(config: Config, vocabulary: int, labels: int = 0, target: int = 0) -> dict[str, int]:
    assert isinstance(config, ViTMAEConfig)
    decoder = {"W": config.decoder_width, "3W": 3 * config.decoder_width, "X": config.decoder_feedforward}
    return vit_sizes(config, vocabulary, labels, target) | decoder


ENCODER = replace(
    VIT,
    model_type="vit_mae",
    architectures={"ViTMAEModel": ()},
    config=ViTConfig,
    keys=ENCODER_KEYS | ignored(" ".join(DECODER_KEYS)),
    heads={},
)
VIT_MAE = replace(
    VIT,
    model_type="vit_mae",
    architectures={"ViTMAEForPreTraining": ()},
    config=ViTMAEConfig,
    keys=ENCODER_KEYS
    | {
        "decoder_hidden_size": Number("decoder_width", 512),
        "decoder_num_hidden_layers": Number("decoder_layers", 8),
        "decoder_num_attention_heads": Number("decoder_heads", 16),
        "decoder_intermediate_size": Number("decoder_feedforward", 2048),
    },
    implied=lambda settings: {"position": "sinusoidal"},
    whole=(
        *VIT.whole,
        *linear("decoder.narrow", "decoder.decoder_embed", "W", "D", inside=False),
        Entry("decoder.mask_token", ("decoder.mask_token",), ("W",), ones=2, inside=False),
        *norm("decoder.stack.norm", "decoder.decoder_norm", "W", inside=False),
        *linear("decoder.pixels", "decoder.decoder_pred", "P", "W", inside=False),
    ),
    blocks=(
        *VIT.blocks,
        Blocks("decoder.stack.blocks", "decoder.decoder_layers", tuple(map(_of_decoder, BLOCK))),
    ),
    spellings={"decoder.decoder_encoder.layer.": "decoder.decoder_layers."},  # of transformers 5, which reads both
    buffers=(STORED, RESTORED),
    heads={},
    sized=_sizes,
    fitted=_as_stored,
    computed=_computed,
    others=(ENCODER,),
)
