"""A tokenizer of single characters for the tiny model, with a chat template like ChatML's."""

from pathlib import Path

from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from tests.trainer.tiny import VOCABULARY

SPECIAL = ["<unk>", "<begin>", "<end>", "<system>", "<user>", "<assistant>", "<tool>"]
CHARACTERS = [*SPECIAL, "\n", *'abcdefghijklmnopqrstuvwxyz 0123456789.,:?!{}"[]_']
END = SPECIAL.index("<end>")
TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}"
    "{% for call in m.tool_calls or [] %}{{ call.function.name }}:{{ call.function.arguments.x }}{% endfor %}"
    "<end>\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


def ids_of(text: str) -> list[int]:
    return [CHARACTERS.index(character) for character in text]


def save_tokenizer(directory: Path, template: str | None = TEMPLATE) -> Path:
    vocabulary = {character: place for place, character in enumerate(CHARACTERS)}
    assert len(vocabulary) <= VOCABULARY
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        eos_token="<end>",
        additional_special_tokens=SPECIAL[1:],
    )
    fast.chat_template = template
    fast.save_pretrained(directory)
    return directory
