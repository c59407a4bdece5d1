"""Masked image modeling: images without labels, of which a model sees a few patches and restores the others."""

from regard.data.image_config import MaskedImagesConfig
from regard.runs.task import Task, lazy
from regard.text.config import NoTextConfig

TASK = Task(
    name="masked_image_modeling",
    data=MaskedImagesConfig,
    text=NoTextConfig,
    family="vit_mae",
    needs=({"masked_image_modeling"},),
    objectives=("masked_patches",),
    prepare=lazy("regard.tasks.masked_image_modeling.prepare:prepare"),
    read_test=lazy("regard.tasks.masked_image_modeling.prepare:read_test"),
    open=lazy("regard.tasks.masked_image_modeling.predict:ImageRestorer.of"),
    adopt=lazy("regard.tasks.masked_image_modeling.predict:ImageRestorer.of"),
    heads=("decoder",),
    metrics=("error",),
    lower_is_better=True,
    has_outputs=False,
    single_texts=False,
    test_hint=" (a folder of images, an idx or .npz file, or a table of paths)",
    prompt="IMAGE.png --output sheet.png",
    scored_on="its own hidden patches",
    exports=("vit_mae",),
)
