"""CTranslate2 models: written from the parts of a model, without CTranslate2's converters.

`parts.py` gives every part of a model (embedding, attention, feed-forward network, norm) the variables that CTranslate2 knows it
by; `models.py` puts them together for the three kinds of model that it runs; `binary.py` writes `model.bin`; `check.py` runs both
sides. No family is named: T5 and LLaMA are other parts, not other code, and a part that CTranslate2 does not compute is refused.
"""
