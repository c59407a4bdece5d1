"""Image classification: images with a label each."""

from regard.data.augment_config import LabelledImagesConfig
from regard.runs.task import Task, lazy
from regard.text.config import NoTextConfig

TASK = Task(
    name="image_classification",
    data=LabelledImagesConfig,
    text=NoTextConfig,
    family="vit",
    needs=({"image_classification"},),
    objectives=("image_classification", "image_distillation"),
    prepare=lazy("regard.tasks.image_classification.prepare:prepare"),
    read_test=lazy("regard.tasks.image_classification.prepare:read_test"),
    open=lazy("regard.tasks.image_classification.predict:ImageClassifier.of"),
    adopt=lazy("regard.tasks.image_classification.predict:ImageClassifier.of"),
    heads=("classes",),
    freezes=True,
    parts=lazy("regard.tasks.image_classification.prepare:parts"),
    metrics=("accuracy",),
    single_texts=False,
    test_hint=" (a folder of images by class, or a table of paths and labels)",
    prompt="IMAGE.png",
    lens="",
    scored_on="its own label",
    exports=("vit", "deit", "perceiver"),
)
