"""Pages of charts, which need no network; Bokeh, which draws them, is optional."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

__all__ = ["COLOURS", "STYLE", "grid", "save_page"]

# Distinct to most colour-blind readers: Okabe and Ito 2008.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
STYLE = "<style>td,th{padding:2px 12px;text-align:left}</style>"


def grid(charts: Sequence[Any]) -> Any:
    """Returns charts in two columns."""
    from bokeh.layouts import gridplot

    rows = [charts[at : at + 2] for at in range(0, len(charts), 2)]
    return gridplot(rows, toolbar_options={"logo": None})


def save_page(parts: Sequence[Any], path: pathlib.Path, title: str) -> None:
    """Writes one page of parts below one another; a text is HTML.

    Raises:
        OSError: the file cannot be written.
    """
    from bokeh.embed import file_html
    from bokeh.layouts import column
    from bokeh.models import Div
    from bokeh.resources import INLINE

    shown = [Div(text=part, width=1000) if isinstance(part, str) else part for part in parts]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(file_html(column(*shown), INLINE, title=title), encoding="utf-8")
