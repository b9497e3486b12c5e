"""The demo's task: read the order number out of a customer's message and reply with nothing else.

The reward is 1.0 for the exact number and 0.0 for anything more, less or other. Training and held-out prompts
share neither a sentence nor a number. Everything follows from the seed.
"""

import random
from dataclasses import dataclass

from openai.types.chat import ChatCompletionMessageParam

SYSTEM = "You read messages from customers. Reply with only the order number."
EXAMPLE = ("Hello, I bought a lamp and order 5172 came without a bulb.", "5172")

TRAINING_SENTENCES = (
    "My parcel has not arrived yet, the order number is {}.",
    "Order {} arrived broken and I want my money back.",
    "Please cancel order {}, I chose the wrong size.",
    "Can you tell me where order {} is?",
    "I was charged twice for order {} this month.",
    "Hi there, order {} came without the charger.",
    "I would like to return order {} as soon as I can.",
    "The box of order {} was empty when I opened it.",
    "I need an invoice for order {}, please.",
    "You sent me the wrong colour. It was order {}.",
    "Two of the plates in order {} are cracked.",
    "It is about order {}: nobody was at home on Friday.",
    "Please send order {} to my office instead.",
    "I still have not heard back about order {}.",
    "Is it too late to add a gift card to order {}?",
    "The courier says that order {} has been lost.",
    "Thanks for the quick help with order {} last week.",
    "My discount was not used for order {}.",
    "The shoes from order {} are too small for me.",
    "Why is order {} still being packed?",
    "I paid for express delivery, see order {}.",
    "Order {} was meant to be a birthday present!",
    "Someone else signed for order {}, not me.",
    "Could you change the address of order {}?",
)
HELDOUT_SENTENCES = (
    "I am still waiting for order {}, it is two weeks late.",
    "The screen of the phone in order {} does not turn on.",
    "How do I send back order {}?",
    "Good morning! When will order {} be shipped?",
    "I only got half of the things in order {}.",
    "I want a refund for order {} because the coat is torn.",
    "Please put order {} on hold until Monday.",
    "The tracking page says nothing about order {}.",
    "Did my payment for order {} go through?",
    "My neighbour took order {} by mistake.",
    "There is a scratch on the table, order {}.",
    "Order {} should have been blue, but it is green.",
    "Can I pick up order {} at the shop?",
    "I ordered by accident, so please stop order {}.",
    "The number of my order is {} and it never came.",
    "What is happening with order {}? I am getting worried.",
)


@dataclass(frozen=True)
class Prompt:
    """One customer's message as chat messages, and the only reply that earns a reward."""

    messages: tuple[ChatCompletionMessageParam, ...]
    expected: str
    sentence: str  # the template: prompts that share it are alike


def prompt(sentence: str, number: str) -> Prompt:
    """The chat messages for one sentence: the instruction, one worked example, the customer's message."""
    question, answer = EXAMPLE
    return Prompt(
        messages=(
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": question},
            {"role": "assistant", "content": answer},
            {"role": "user", "content": sentence.format(number)},
        ),
        expected=number,
        sentence=sentence,
    )


def prompts(seed: int, training: int = 240, heldout: int = 64) -> tuple[list[Prompt], list[Prompt]]:
    """Training prompts in a seeded order, and the held-out prompts, which are the same for every seed."""
    fixed = random.Random(20)
    numbers = [str(number) for number in range(1000, 10000) if str(number) != EXAMPLE[1]]
    fixed.shuffle(numbers)
    unseen, seen = numbers[:heldout], numbers[heldout:]
    held = [prompt(HELDOUT_SENTENCES[i % len(HELDOUT_SENTENCES)], number) for i, number in enumerate(unseen)]
    order = random.Random(seed)
    sentences: list[str] = []
    while len(sentences) < training:  # every sentence once before any comes again
        sentences += order.sample(TRAINING_SENTENCES, len(TRAINING_SENTENCES))
    drawn = order.sample(seen, training)
    return [prompt(sentence, number) for sentence, number in zip(sentences, drawn, strict=False)], held


def score(text: str, expected: str) -> float:
    """1.0 if the reply is exactly the order number (spaces around it are ignored), else 0.0."""
    return float(text.strip() == expected)
