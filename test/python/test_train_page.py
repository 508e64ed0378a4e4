"""The page of a run, in one file, as a real browser shows it."""

from __future__ import annotations

import json
import pathlib
import re
import shutil
import subprocess
from typing import Any

import pytest

pytest.importorskip("bokeh", reason="the page is drawn by Bokeh")

from scalify.train.page import COLOURS, Curves, main, smooth, write_page

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")


def log(folder: pathlib.Path, steps: int, **more: Any) -> pathlib.Path:
    folder.mkdir()
    lines = []
    for step in range(1, steps + 1):
        record = {"loss": 4 / step, "gradient_norm": 1.0 + step % 3, "learning_rate": 1e-3}
        record |= {"tokens_per_second": 1000.0, "saturated": 0.0, "flushed": 0.01} | more
        lines.append({"kind": "step", "step": step, **record})
    lines.append({"kind": "evaluation", "step": steps, "loss": 0.5})
    lines.append({"kind": "sample", "step": steps, "text": "<script>alert(1)</script>"})
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "config.json").write_text(json.dumps({"recipe": {"name": "fp8"}}))
    return folder


def test_the_page_is_one_file_that_needs_no_network(tmp_path: pathlib.Path) -> None:
    folders = [log(tmp_path / "first", 5000), log(tmp_path / "second", 10)]
    out = tmp_path / "page.html"
    assert main([*map(str, folders), "-o", str(out)]) == 0
    text = out.read_text()
    assert not re.search(r"<(script|link)[^>]+(src|href)=", text)
    assert "<script>alert(1)" not in text
    # Thousands of steps are means.
    assert len(Curves.read(folders[0]).curve("loss")[0]) == 2000
    assert len(text) < 4 << 20


def test_a_line_that_a_kill_cut_short_is_left_out(tmp_path: pathlib.Path) -> None:
    folder = log(tmp_path / "run", 5)
    with (folder / "log.jsonl").open("a") as file:
        file.write('{"kind": "step", "st')
    assert len(Curves.read(folder).steps) == 5
    (folder / "log.jsonl").write_text("")
    with pytest.raises(ValueError, match="has no records of a run"):
        write_page([folder], tmp_path / "page.html")


def test_smoothed_values_start_at_the_first() -> None:
    assert smooth([3.0, 3.0, 3.0]) == pytest.approx([3.0] * 3)
    assert smooth([1.0, 0.0])[1] == pytest.approx(0.09 / 0.19)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
def test_a_browser_draws_every_run(tmp_path: pathlib.Path) -> None:
    image_of = pytest.importorskip("PIL.Image", reason="Pillow reads the screenshot")
    other = {"learning_rate": 2e-3, "flushed": 0.02, "saturated": 0.01, "tokens_per_second": 2000.0}
    runs = [log(tmp_path / "a", 80), log(tmp_path / "b", 80, **other)]
    write_page(runs, tmp_path / "page.html")
    shot = tmp_path / "shot.png"
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += [f"--user-data-dir={tmp_path}/profile", "--window-size=1100,1200"]
    command += ["--virtual-time-budget=10000", f"--screenshot={shot}"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", (tmp_path / "page.html").as_uri()]
    subprocess.run(command, capture_output=True, timeout=120, check=True)
    with image_of.open(shot) as image:
        seen = {colour: count for count, colour in image.convert("RGB").getcolors(1 << 24)}
    for colour in COLOURS[:2]:
        red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
        # Of a run's six lines four are level, two pixels high and nearly 400 wide.
        assert seen.get((red, green, blue), 0) > 4 * 300, (colour, seen.get((red, green, blue)))
