"""Texts that a model writes while it trains."""

from __future__ import annotations

import pathlib
from typing import Any

from scalify.models import llama
from scalify.models.tokenizer import load
from scalify.train.settings import SampleSection

__all__ = ["Sampler"]


class Sampler:
    """Continues one prompt, greedily, with a cache of keys and values."""

    def __init__(
        self,
        section: SampleSection,
        tokenizer: pathlib.Path,
        config: llama.LlamaConfig,
        end: int | None,
    ) -> None:
        """Reads the tokenizer.

        Args:
            section: the prompt and the number of tokens.
            tokenizer: path of a tokenizer.json.
            config: of the model.
            end: the token that ends a document; an empty prompt starts after it.

        Raises:
            ImportError: the library is missing.
            OSError: there is no such file.
            ValueError: the file is no tokenizer, or the prompt is empty and nothing ends documents.
        """
        self.tokenizer = load(tokenizer)
        self.section, self.config, self.end = section, config, end
        encoded = self.tokenizer.encode(section.prompt, add_special_tokens=False).ids
        self.prompt = encoded or [end]
        if self.prompt == [None]:
            raise ValueError("sample.prompt is empty, and no token ends documents: give a prompt")

    def text(self, params: Any) -> str:
        """Returns the prompt and what the model writes after it."""
        stop = [] if self.end is None else [self.end]
        made = llama.generate(params, self.config, self.prompt, self.section.tokens, stop=stop)
        return self.section.prompt + self.tokenizer.decode(made)
