"""Conversations and instructions as tokens, with the tokens that the loss counts.

The loss counts what the assistant says, and the token by which it ends.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from scalify._extras import require

__all__ = ["TEMPLATES", "Template", "conversation"]

Message = Mapping[str, str]
ROLES = ("system", "user", "assistant")
# In which names public files of instructions give a request, its input, and the answer.
REQUESTS = ("instruction", "prompt", "question")
ANSWERS = ("output", "completion", "response", "answer")


def conversation(record: Mapping[str, Any]) -> list[Message]:
    """Returns the messages of a line of JSON.

    Either {"messages": [{"role", "content"}, ...]}, or one request and its answer: "instruction"
    (with "input"), "prompt" or "question", and "output", "completion", "response" or "answer".

    Raises:
        ValueError: it has neither, or nothing that an assistant says.
    """
    if "messages" in record:
        messages = record["messages"]
        for message in messages:
            if message.get("role") not in ROLES or not isinstance(message.get("content"), str):
                raise ValueError(f"a message needs a role of {', '.join(ROLES)}, and its content")
    else:
        request = next((record[name] for name in REQUESTS if name in record), None)
        answer = next((record[name] for name in ANSWERS if name in record), None)
        if not isinstance(request, str) or not isinstance(answer, str):
            raise ValueError(
                f"no conversation: expected 'messages', or one of {', '.join(REQUESTS)} and one of "
                f"{', '.join(ANSWERS)}"
            )
        if record.get("input"):
            request = f"{request}\n\n{record['input']}"
        messages = [
            {"role": "user", "content": request},
            {"role": "assistant", "content": answer},
        ]
    if not any(message["role"] == "assistant" for message in messages):
        raise ValueError("the assistant says nothing in it, so there is nothing to learn")
    return list(messages)


def _chatml(messages: Sequence[Message]) -> str:
    return "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)


def _plain(messages: Sequence[Message]) -> str:
    names = {"system": "System", "user": "User", "assistant": "Assistant"}
    return "".join(f"{names[m['role']]}: {m['content']}\n\n" for m in messages)


TEMPLATES: dict[str, tuple[Callable[[Sequence[Message]], str], str]] = {
    "chatml": (_chatml, "<|im_start|>assistant\n"),
    "plain": (_plain, "Assistant: "),
}


@dataclasses.dataclass(frozen=True)
class Template:
    """How conversations become text.

    Attributes:
        render: the text of messages; that of the first n is a prefix of that of all.
        opening: the text before what the assistant says.
    """

    render: Callable[[Sequence[Message]], str]
    opening: Callable[[Sequence[Message]], str]

    @staticmethod
    def of(name: str) -> Template:
        """Returns a built-in template, or that of a tokenizer's folder or one of its files.

        transformers keeps it in chat_template.jinja, earlier versions in tokenizer_config.json.

        Raises:
            OSError: the file cannot be read.
            ValueError: there is no such template.
            ImportError: a template of a file needs Jinja.
        """
        if name in TEMPLATES:
            render, said = TEMPLATES[name]
            return Template(render, lambda messages: render(messages) + said)
        path = pathlib.Path(name)
        if not path.is_dir() and path.suffix not in (".json", ".jinja"):
            raise ValueError(
                f"unknown template '{name}': expected {', '.join(TEMPLATES)}, or a tokenizer's "
                "folder, tokenizer_config.json or chat_template.jinja"
            )
        return _of_jinja(*_read(path))

    def encode(
        self, messages: Sequence[Message], tokenizer: Any, end: int
    ) -> tuple[list[int], list[int]]:
        """Returns the tokens of a conversation, and 1 for each that the loss counts.

        Raises:
            ValueError: the template writes earlier messages otherwise once others follow.
        """
        tokens: list[int] = []
        trained: list[int] = []
        before = ""

        def add(text: str, counts: bool) -> None:
            ids = tokenizer.encode(text, add_special_tokens=False).ids if text else []
            tokens.extend(ids)
            trained.extend([int(counts)] * len(ids))

        for at, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            opening, after = self.opening(messages[:at]), self.render(messages[: at + 1])
            if not opening.startswith(before) or not after.startswith(opening):
                raise ValueError(
                    "the template changes the text of earlier messages, so that what the assistant "
                    "says cannot be told apart: use a built-in template"
                )
            add(opening[len(before) :], False)
            add(after[len(opening) :], True)
            before = after
        return [*tokens, end], [*trained, 1]


def _read(path: pathlib.Path) -> tuple[str, Mapping[str, Any]]:
    """Returns the Jinja template of a tokenizer's folder or file, and its tokenizer_config.json."""
    folder = path if path.is_dir() else path.parent
    config_path = path if path.suffix == ".json" else folder / "tokenizer_config.json"
    config: Mapping[str, Any] = {}
    if config_path.exists() or path == config_path:
        config = json.loads(config_path.read_text(encoding="utf-8"))
    template = config.get("chat_template")
    if isinstance(template, list):  # several, by name
        template = {one["name"]: one["template"] for one in template}.get("default")
    file = path if path.suffix == ".jinja" else folder / "chat_template.jinja"
    if path == file or (template is None and file.exists()):
        template = file.read_text(encoding="utf-8")
    if not isinstance(template, str):
        raise ValueError(f"'{path}' has no chat_template: name a built-in one")
    return template, config


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None) -> str:
    """The filter `tojson` as chat templates use it."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)


def _of_jinja(text: str, config: Mapping[str, Any]) -> Template:
    require("a chat_template", "train", "jinja2")
    import jinja2.sandbox

    def refuse(why: str) -> None:
        raise ValueError(f"the template refuses the conversation: {why}")

    # A template is a program of a file's author: it runs in Jinja's sandbox.
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    # transformers offers these, and a clock, which would make tokens depend on the day.
    environment.globals["raise_exception"] = refuse
    environment.filters["tojson"] = _to_json
    try:
        template = environment.from_string(text)
    except jinja2.TemplateError as error:
        raise ValueError(f"the template cannot be read: {error}") from error
    names = {
        name: token.get("content") if isinstance(token, dict) else token
        for name in ("bos_token", "eos_token", "unk_token", "pad_token")
        if (token := config.get(name)) is not None
    }

    def render(messages: Sequence[Message], opening: bool = False) -> str:
        try:
            return template.render(messages=messages, add_generation_prompt=opening, **names)
        except jinja2.TemplateError as error:
            raise ValueError(f"the template fails: {error}") from error

    return Template(render, lambda messages: render(messages, True))
