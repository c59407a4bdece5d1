"""How the next token is chosen where it is drawn: temperature, filters and a penalty, as one value.

Top-k: Fan et al. 2018. Top-p, the nucleus: Holtzman et al. 2020. Min-p: Nguyen et al. 2024. Repetition penalty: Keskar et al.
2019, section 4.1. They apply in the order that Hugging Face gives them: penalty, temperature, top-k, top-p, min-p.
"""

from __future__ import annotations

from dataclasses import dataclass

from regard.core.errors import UserError

COLDEST = 1e-6  # below it, only the most probable token has a chance that float32 can tell from none


@dataclass(frozen=True, kw_only=True)
class Choice:
    temperature: float = 1.0  # logits are divided by it; 0 always takes the most probable token
    top_k: int = 0  # only so many of the most probable, and what equals the last of them; 0: all
    top_p: float = 1.0  # only the most probable that together reach this probability; 1: all
    min_p: float = 0.0  # only what has this fraction of the most probable one's probability; 0: all
    repetition_penalty: float = 1.0  # positive logits of what has occurred are divided by it, negative ones multiplied; 1: none

    def __post_init__(self) -> None:
        if not (self.temperature == 0 or COLDEST <= self.temperature < float("inf")):
            raise UserError(
                f"decode.temperature is {self.temperature}; give a number above 0, usually between 0.5 and 1.2, or 0 to take "
                "the most probable token always."
            )
        if self.top_k < 0:
            raise UserError(f"decode.top_k is {self.top_k}; it counts tokens to draw from, so give 1 or more, or 0 for all.")
        if not 0 < self.top_p <= 1:
            raise UserError(f"decode.top_p is {self.top_p}; it is a probability, so give more than 0 and at most 1 (all tokens).")
        if not 0 <= self.min_p <= 1:
            raise UserError(f"decode.min_p is {self.min_p}; it is a fraction, so give a number from 0 (all tokens) to 1.")
        if not 0 < self.repetition_penalty < float("inf"):
            raise UserError(
                f"decode.repetition_penalty is {self.repetition_penalty}; give a number above 0: 1 for none, usually up to 1.3."
            )


MOST_PROBABLE = Choice(temperature=0.0)
