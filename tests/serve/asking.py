"""Requests that schemathesis draws from the OpenAPI document, right ones and wrong ones, each answer held to the document."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import httpx
import jsonschema_rs
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode, openapi

HOST = "http://127.0.0.1"
Check = Callable[[httpx.Response, str], None]


class Asked(NamedTuple):
    requests: Counter[str]  # by method and path
    statuses: Counter[int]


def ask(client: httpx.Client, each: int, number: int = 0) -> Asked:
    """Send `each` right and as many wrong requests to every operation; the first answer that breaks the document is an error."""
    document = client.get("/openapi.json").json()
    found = Asked(Counter(), Counter())
    limits = settings(
        max_examples=each, database=None, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
    )
    for operation in openapi.from_dict(document).get_all_operations():
        one = operation.ok()
        send = sender(client, one.label, checker(document, one.path, one.method), found)
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            drawn = given(case=one.as_strategy(generation_mode=mode))(send)
            with suppress(Unsatisfiable):  # a path without parameters cannot be asked in a wrong way
                limits(seed(number)(drawn))()
    return found


def sender(client: httpx.Client, label: str, check: Check, found: Asked) -> Callable[[Case], None]:
    """A function that sends one request, counts it, and checks its answer."""

    def send(case: Case) -> None:
        asked = as_sent(case)
        try:
            built = client.build_request(case.method, asked.pop("url"), **asked)
        except (httpx.InvalidURL, UnicodeError):  # no client could send it
            return
        answer = client.send(built)
        found.requests[label] += 1
        found.statuses[answer.status_code] += 1
        check(answer, f"{label} {str(asked)[:2000]}")

    return send


def as_sent(case: Case) -> dict[str, Any]:
    """The request as httpx takes it; wrong bodies may be any bytes, and wrong fields anything that JSON can write."""
    given = case.as_transport_kwargs(base_url=HOST)
    headers = {name: value for name, value in given["headers"].items() if value.isascii()}
    content = given.get("data") if "json" not in given else json.dumps(given["json"]).encode()
    if content is not None and not isinstance(content, bytes):
        content = str(content).encode("utf-8", "replace")
    return {"url": given["url"].removeprefix(HOST), "headers": headers, "params": given.get("params"), "content": content}


def checker(document: dict[str, Any], path: str, method: str) -> Check:
    """A function that fails for a server error, a status that is not documented, and a body of another shape."""
    responses = document["paths"][path][method.lower()]["responses"]
    validators = dict[str, jsonschema_rs.Validator]()
    for status, response in responses.items():
        if (content := response.get("content", {}).get("application/json")) is not None:
            schema = {**content["schema"], "components": document["components"]}
            validators[status] = jsonschema_rs.validator_for(schema)

    def check(answer: httpx.Response, about: str) -> None:
        status = str(answer.status_code)
        assert answer.status_code < 500 or status == "503", f"{status}: {answer.text} to {about}"
        if status not in responses:
            assert status in ("404", "405"), f"{status} is not documented: {about}"  # a path that leads elsewhere
            return
        if status in validators and answer.headers["content-type"].startswith("application/json"):
            validators[status].validate(answer.json())

    return check
