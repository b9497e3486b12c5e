"""What the clients of the bench send: an ordinary call of the openai SDK, with a prompt of a given size.

Invariant: no two prompts are equal (each carries its number), so that nothing is answered from a cache or grouped.
"""

from dataclasses import dataclass

from bench.gateway.replies import dumps

MODEL = "gpt-4o"
_NUMBER = "00000000"
_SENTENCES = (
    'The customer wrote: "my order hasn\'t come yet".\n',
    "Reference 48-1137-K, placed on a Tuesday, paid in €, shipped to Zürich.\n",
    "Please read the notes below, then say in one sentence what should happen next.\n",
    "Notes:\t1) the depot was closed; 2) the driver left a card; 3) nobody called back.\n",
)
HEAD = (
    "POST /v1/chat/completions HTTP/1.1\r\n"
    "host: 127.0.0.1\r\n"
    "accept-encoding: gzip, deflate\r\n"
    "connection: keep-alive\r\n"
    "accept: application/json\r\n"
    "content-type: application/json\r\n"
    "user-agent: OpenAI/Python 3.57.0\r\n"
    "x-stainless-lang: python\r\n"
    "x-stainless-package-version: 3.57.0\r\n"
    "x-stainless-os: Linux\r\n"
    "x-stainless-arch: x64\r\n"
    "x-stainless-runtime: CPython\r\n"
    "x-stainless-runtime-version: 3.11.7\r\n"
    "x-stainless-async: async:asyncio\r\n"
    "x-stainless-retry-count: 0\r\n"
    "x-stainless-read-timeout: 600\r\n"
    "authorization: Bearer sk-bench\r\n"
    "content-length: {length}\r\n\r\n"
)


@dataclass(frozen=True)
class Template:
    """A request cut where its number stands."""

    before: bytes
    after: bytes

    def numbered(self, number: int) -> bytes:
        return b"%b%08d%b" % (self.before, number, self.after)


def template(prompt_bytes: int, num_tokens: int, *, is_streamed: bool) -> Template:
    """A system message and a user message with `prompt_bytes` of text together."""
    system = "You are a helpful assistant of a parcel service. Answer briefly."
    user = f"Request {_NUMBER}. {_text(prompt_bytes - len(system) - 18)}"
    body = {
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
        "model": MODEL,
        "max_tokens": num_tokens,
        "temperature": 1.0,
        **({"stream": True} if is_streamed else {}),
    }
    encoded = dumps(body).encode()
    before, after = encoded.split(_NUMBER.encode())
    return Template(HEAD.format(length=len(encoded)).encode() + before, after)


def _text(num_bytes: int) -> str:
    """Sentences cut to `num_bytes` of UTF-8, filled up with full stops where a character would be split."""
    once = "".join(_SENTENCES)
    whole = (once * (num_bytes // len(once) + 1)).encode()[:num_bytes]
    text = whole.decode(errors="ignore")
    return text + "." * (num_bytes - len(text.encode()))
