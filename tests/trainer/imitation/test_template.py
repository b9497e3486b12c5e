"""The chat template: the prompt begins the whole, and what the template adds behind the end is not the model's to say."""

import pytest

from tests.trainer.imitation.tokenizer import END, TEMPLATE, ids_of, save_tokenizer
from trainer.errors import SurroundingsError
from trainer.imitation.template import TemplateRefusedError, template_of

USER, ASSISTANT = 4, 5


def test_a_prompt_and_its_answer_are_rendered_apart(tiny_path) -> None:
    asked = [{"role": "user", "content": "how?"}]
    prompt, answer = template_of(str(tiny_path)).rendered(
        asked, None, {"role": "assistant", "content": "so."}
    )
    assert prompt == [USER, *ids_of("how?"), END, *ids_of("\n"), ASSISTANT]
    assert answer == [*ids_of("so."), END]


def test_an_answer_alone_is_what_it_is_behind_any_prompt(tiny_path) -> None:
    template = template_of(str(tiny_path))
    assert template.answer_ids({"role": "assistant", "content": "so."}) == [*ids_of("so."), END]
    assert template.text_ids("so.") == [*ids_of("so."), END]


def test_parts_are_one_text_and_arguments_of_tools_are_objects(tiny_path) -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    _, answer = template_of(str(tiny_path)).rendered(
        [{"role": "user", "content": parts}],
        None,
        {"role": "assistant", "content": None, "tool_calls": [call]},
    )
    assert answer == [*ids_of("f:1"), END]


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]},
        {"role": "user", "content": 7},
        {"content": "nobody said it"},
        "no message",
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]},
    ],
)
def test_what_it_cannot_say_is_refused(tiny_path, message) -> None:
    with pytest.raises(TemplateRefusedError):
        template_of(str(tiny_path)).rendered([message], None, {"role": "assistant", "content": "so."})


@pytest.mark.parametrize(
    "template",
    [
        None,
        "{{ raise_exception('no') }}",
        # the whole does not begin with the prompt: it counts its messages first
        "{{ messages | length }}" + TEMPLATE,
        "{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}",
    ],
)
def test_a_template_by_which_the_prompt_does_not_begin_the_whole_is_refused(tmp_path, template) -> None:
    path = str(save_tokenizer(tmp_path / "model", template))
    with pytest.raises(TemplateRefusedError):
        template_of(path).answer_ids({"role": "assistant", "content": "so."})


def test_an_answer_without_an_end_gets_one(tmp_path) -> None:
    path = save_tokenizer(tmp_path / "model", "{% for m in messages %}{{ m.content }}{% endfor %}")
    assert template_of(str(path)).answer_ids({"role": "assistant", "content": "so."}) == [*ids_of("so."), END]


def test_a_base_without_a_tokenizer_is_no_fault_of_the_batch(tmp_path) -> None:
    with pytest.raises(SurroundingsError, match="tokenizer"):
        template_of(str(tmp_path))
