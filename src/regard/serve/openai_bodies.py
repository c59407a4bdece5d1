"""The bodies of requests in the shape of OpenAI's API, and of its answers: the fields that this server acts on, and no others."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from regard.core.errors import UserError
from regard.tasks.bodies import Body, Model, Reply, Text, Texts, Usage

MOST_STOPS, LONGEST_STOP, MOST_MESSAGES = 16, 1000, 2048

Stop = Annotated[str, Field(min_length=1, max_length=LONGEST_STOP)]
Stops = Annotated[list[Stop], Field(max_length=MOST_STOPS)]
Finite = Field(allow_inf_nan=False)


class StreamOptions(Body):
    include_usage: bool = False


class JsonSchema(Body):
    name: Annotated[str, Field(min_length=1, max_length=64)]
    description: Annotated[str | None, Field(max_length=10_000)] = None
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    strict: bool | None = None


class ResponseFormat(Body):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    def schema_of(self) -> dict[str, Any] | None:
        """Return the schema; None: any object."""
        if self.type == "json_object":
            return None
        if self.json_schema is None or self.json_schema.schema_ is None:
            raise UserError("response_format has the type json_schema and no schema; give json_schema={name, schema}.")
        return self.json_schema.schema_


class Writing(Body):
    """Fields that completions and chats share."""

    model: Model = None
    max_tokens: Annotated[int | None, Field(ge=1, le=1_000_000, description="None: as the run's own settings")] = None
    temperature: Annotated[float | None, Field(ge=0, le=100, allow_inf_nan=False, description="0 is greedy")] = None
    top_p: Annotated[float | None, Field(gt=0, le=1, allow_inf_nan=False)] = None
    top_k: Annotated[int | None, Field(ge=0, le=1_000_000, description="0: all tokens")] = None
    min_p: Annotated[float | None, Field(ge=0, le=1, allow_inf_nan=False)] = None
    repetition_penalty: Annotated[float | None, Field(gt=0, le=100, allow_inf_nan=False)] = None
    n: Annotated[int | None, Field(ge=1, le=128)] = None
    stop: Stop | Stops | None = None
    seed: Annotated[int | None, Field(ge=0, lt=2**63)] = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None


class CompletionBody(Writing):
    prompt: Text | Texts
    logprobs: Annotated[int | None, Field(ge=0, le=20)] = None


class TextPart(Body):
    type: Literal["text"]
    text: Text


class ChatMessage(Body):
    role: Literal["system", "developer", "user", "assistant"]
    content: Text | Annotated[list[TextPart], Field(min_length=1, max_length=256)]
    name: Annotated[str | None, Field(max_length=64)] = None

    def plain(self) -> dict[str, str]:
        text = self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)
        return {"role": self.role, "content": text, **({"name": self.name} if self.name else {})}


class ChatBody(Writing):
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MOST_MESSAGES)]
    max_completion_tokens: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int | None, Field(ge=0, le=20)] = None


class EmbeddingsBody(Body):
    model: Model = None
    input: Text | Texts
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int | None, Field(ge=1, le=1_000_000, description="the first so many numbers, made of length 1")] = None


class CompletionLogprobs(Reply):
    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]] | None
    text_offset: list[int]


class Choice(Reply):
    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: str | None


class CompletionReply(Reply):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage | None = None


class TopLogprob(Reply):
    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(TopLogprob):
    top_logprobs: list[TopLogprob]


class ChatLogprobs(Reply):
    content: list[TokenLogprob]
    refusal: None = None


class Said(Reply):
    role: Literal["assistant"]
    content: str
    refusal: None = None


class ChatChoice(Reply):
    index: int
    message: Said
    logprobs: ChatLogprobs | None = None
    finish_reason: str


class ChatReply(Reply):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage


class Vector(Reply):
    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingUsage(Reply):
    prompt_tokens: int
    total_tokens: int


class EmbeddingsReply(Reply):
    object: Literal["list"]
    model: str
    data: list[Vector]
    usage: EmbeddingUsage


class ModelReply(Reply):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    routes: list[str]


class ModelsReply(Reply):
    object: Literal["list"]
    data: list[ModelReply]
