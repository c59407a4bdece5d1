"""A language model of transformers behind FastAPI, as people write it: `generate` under a lock; `/v1/completions` as ours.

python -m benchmarks.peers.transformers_server FOLDER --port PORT
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import torch
from pydantic import BaseModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.peers.served import application, options, run


class Body(BaseModel):
    prompt: str
    max_tokens: int


def main() -> None:
    typed = options().parse_args()
    tokenizer = AutoTokenizer.from_pretrained(typed.folder)
    model = AutoModelForCausalLM.from_pretrained(typed.folder, dtype=torch.float32).eval()
    one_at_a_time, app = Lock(), application()

    @app.post("/v1/completions")
    def complete(body: Body) -> dict[str, Any]:
        read = tokenizer(body.prompt, return_tensors="pt")
        with one_at_a_time, torch.inference_mode():
            found = model.generate(**read, max_new_tokens=body.max_tokens, do_sample=False, pad_token_id=tokenizer.eos_token_id)
        text = tokenizer.decode(found[0, read["input_ids"].shape[1] :], skip_special_tokens=True)
        return {"choices": [{"text": text}]}

    run(app, typed.port)


if __name__ == "__main__":
    main()
