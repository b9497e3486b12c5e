"""docs/fields.md, the proxy's rules and the pinned vLLM know the same fields."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

from proxy.errors import InvalidRequestError
from proxy.surface.fields import Rule, dropped_fields, rule_of
from proxy.surface.media import MEDIA_KEYS

DOCUMENT = (Path(__file__).parents[2] / "docs" / "fields.md").read_text()
ROUTES = {
    "/v1/chat/completions": ("openai/chat_completion", "ChatCompletionRequest"),
    "/v1/completions": ("openai/completion", "CompletionRequest"),
    "/v1/responses": ("openai/responses", "ResponsesRequest"),
    "/v1/messages": ("anthropic", "AnthropicMessagesRequest"),
}


def section(title: str) -> str:
    return DOCUMENT.split(f"## {title}\n")[1].split("\n## ")[0]


def fields_in(title: str) -> set[str]:
    """Of a table's first column, or of a text."""
    lines = [line.split("|")[1] if line.startswith("|") else line for line in section(title).splitlines()]
    return set(re.findall(r"`([a-z_]+)`", "\n".join(lines)))


def known_to_vllm(route: str) -> set[str]:
    """Read from its source: importing it takes half a minute."""
    specification = importlib.util.find_spec("vllm")
    assert specification is not None
    assert specification.origin is not None
    folder, name = ROUTES[route]
    source = (Path(specification.origin).parent / "entrypoints" / folder / "protocol.py").read_text()
    [model] = [
        node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name
    ]
    names = [
        node.target.id
        for node in model.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("route", ROUTES)
def test_every_field_that_the_pinned_vllm_knows_is_documented(route: str) -> None:
    documented = set().union(*map(fields_in, ("Set", "Limited", "Dropped", "Refused", "Passes")))
    known = known_to_vllm(route)
    assert len(known) > 10
    assert known - documented == set()


def test_what_is_documented_as_dropped_or_refused_is() -> None:
    dropped = {name for name in fields_in("Dropped") if rule_of("/v1/chat/completions", name) is Rule.DROP}
    assert dropped == fields_in("Dropped")
    for name in fields_in("Refused"):
        assert Rule.REFUSE in {rule_of(route, name) for route in ROUTES}, name
    for name in fields_in("Passes") - {"echo", "prompt"}:
        assert {rule_of(route, name) for route in ROUTES} == {None}, name


@pytest.mark.parametrize("name", sorted(fields_in("Refused")))
def test_a_refusal_names_the_field_and_null_asks_for_nothing(name: str) -> None:
    route = next(route for route in ROUTES if rule_of(route, name))
    assert dropped_fields(route, {name: None}) == dropped_fields(route, {name: False}) == frozenset()
    with pytest.raises(InvalidRequestError, match=f"'{name}' is not accepted: ") as refused:
        dropped_fields(route, {name: {"x": 1}})
    assert refused.value.param == name


@pytest.mark.parametrize(
    "kwargs", [{"tokenize": True}, {"chat_template": "x"}, {"enable_thinking": {"a": 1}}]
)
def test_template_variables_are_an_allow_list(kwargs: dict[str, object]) -> None:
    """B138"""
    with pytest.raises(InvalidRequestError, match="chat_template_kwargs"):
        dropped_fields("/v1/chat/completions", {"chat_template_kwargs": kwargs})
    assert not dropped_fields("/v1/chat/completions", {"chat_template_kwargs": {"enable_thinking": False}})


def test_every_part_that_the_pinned_vllm_takes_for_media_is_known() -> None:
    """B141"""
    specification = importlib.util.find_spec("vllm")
    assert specification is not None
    assert specification.origin is not None
    source = (Path(specification.origin).parent / "renderers" / "chat_utils.py").read_text()
    [parsers] = [
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "MM_PARSER_MAP"
    ]
    assert isinstance(parsers, ast.Dict)
    kinds = {key.value for key in parsers.keys if isinstance(key, ast.Constant)}
    assert (
        kinds - {"text", "thinking", "input_text", "output_text", "refusal", "tool_reference"} == MEDIA_KEYS
    )
