"""Image generation: images as sequences of pixels, and models that draw them, complete them or enlarge small ones."""

from regard.data.image_config import DrawingConfig
from regard.runs.task import Task, lazy
from regard.text.config import NoTextConfig

TASK = Task(
    name="image_generation",
    data=DrawingConfig,
    text=NoTextConfig,
    family="image_transformer",
    needs=({"pixel_lm"},),
    objectives=("pixels",),
    prepare=lazy("regard.tasks.image_generation.prepare:prepare"),
    read_test=lazy("regard.tasks.image_generation.prepare:read_test"),
    open=lazy("regard.tasks.image_generation.predict:ImageGenerator.of"),
    adopt=lazy("regard.tasks.image_generation.predict:ImageGenerator.of"),
    adopted_settings=lambda start: {"decode": {"search": "sample"}},
    heads=("head",),
    metrics=("bits_per_dim",),
    lower_is_better=True,
    has_outputs=False,
    single_texts=False,
    prompt="--output sheet.png",
    scored_on="only the image itself",
    exports=("image_transformer",),
)
