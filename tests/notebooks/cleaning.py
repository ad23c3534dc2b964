"""Notebooks as they are committed: with outputs, and with nothing of the machine that made them."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import socket
from collections.abc import Iterator
from typing import Any

PICTURE_BYTES_MAX = 60_000
PICTURE_BYTES_MIN = 3_000
"""Empty axes have less."""

LINE_MAX = 120

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
OURS = "rocketpy"
"""In the metadata of a notebook: the hash of the code that its outputs are of."""

_MACHINE = re.compile(r"(?<![\w.~-])/(?:tmp|home|root|Users|var|work|usr|opt|mnt|private)/[\w./-]*")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Of an object, in what Python shows of it."""
_START_OF_SPARK = re.compile(
    r"WARNING: (Using incubator modules|A (restricted|terminally deprecated) method|Use --(enable|add)|\S+ (has been|will be))"
    r"|Warning: Java versions > Java 11 can only operate in restricted mode"
    r"|Setting default log level to|To adjust logging level use|Using Spark's default log4j"
    r"|\d\d/\d\d/\d\d \d\d:\d\d:\d\d WARN (NativeCodeLoader|Utils|GarbageCollectionMetrics):"
)
"""What Java prints on every start, according to the machine."""


def cleaned(notebook: Any) -> Any:
    """Return a notebook that was run, ready for a commit; the value is changed in place."""
    notebook.metadata = {**METADATA, OURS: {"sources": source_hash(notebook)}}
    for cell in notebook.cells:
        cell.metadata = {}
        if cell.cell_type == "code":
            cell.outputs = list(_clean_outputs(cell.outputs))
    return notebook


def source_hash(notebook: Any) -> str:
    """Return a hash of the code of a notebook. Its text may change without a run."""
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return hashlib.sha256(json.dumps(sources).encode()).hexdigest()[:32]


def output_kinds(cell: Any) -> list[str]:
    """Return what a cell shows: ``stdout``, or the best form of a picture, table or value, in their order."""
    return [_kind(output) for output in cell.outputs]


def pictures(notebook: Any) -> Iterator[bytes]:
    """Yield the PNG files of a notebook, in their order."""
    for cell in code_cells(notebook):
        for output in cell.outputs:
            if (text := output.get("data", {}).get("image/png")) is not None:
                yield base64.b64decode(text)


def code_cells(notebook: Any) -> list[Any]:
    """Return the cells with code."""
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def defects(notebook: Any) -> Iterator[str]:
    """Yield a sentence for whatever keeps a notebook from being committed."""
    cells = code_cells(notebook)
    if notebook.metadata != {**METADATA, OURS: {"sources": source_hash(notebook)}}:
        yield "the code is not that which the outputs are of (python -m tests.notebooks), or the metadata is foreign"
    if [cell.execution_count for cell in cells] != list(range(1, len(cells) + 1)):
        yield "the cells were not run in their order"
    for number, cell in enumerate(cells, 1):
        if any(len(line) > LINE_MAX for line in cell.source.splitlines()):
            yield f"cell {number} has a line of more than {LINE_MAX} characters"
        if cell.metadata:
            yield f"cell {number} has metadata: {sorted(cell.metadata)}"
        for output in cell.outputs:
            yield from (f"cell {number} {defect}" for defect in _output_defects(output))
    yield from (f"a picture of {len(each):,} bytes" for each in pictures(notebook) if not _is_modest(each))


def _is_modest(picture: bytes) -> bool:
    return PICTURE_BYTES_MIN <= len(picture) <= PICTURE_BYTES_MAX


def _output_defects(output: Any) -> Iterator[str]:
    if output.output_type == "error":
        yield f"has failed: {output.ename}"
        return
    text = _text(output)
    if output.get("name") == "stderr":
        yield f"has printed to stderr: {text[:200]!r}"
    if "\x1b" in text:
        yield "shows escapes of a terminal"
    for found in _MACHINE.findall(text):
        yield f"shows a path of a machine: {found}"
    host = socket.gethostname()
    if host != "localhost" and re.search(rf"\b{re.escape(host)}\b", text):
        yield f"shows the name of this machine: {host}"


def _kind(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.name)
    forms = output.get("data", {})
    return next((each for each in ("image/png", "image/svg+xml", "text/html") if each in forms), output.output_type)


def _text(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    return "\n".join(str(value) for form, value in output.get("data", {}).items() if form.startswith("text/"))


def _clean_outputs(outputs: list[Any]) -> Iterator[Any]:
    """Yield outputs with each stream in one piece, small pictures, and without what a start of Java says."""
    last = None
    for output in outputs:
        if output.output_type == "stream":
            if last is not None and last.output_type == "stream" and last.name == output.name:
                last.text += output.text
                continue
        elif (picture := output.get("data", {}).get("image/png")) is not None:
            output.data["image/png"] = base64.b64encode(small_picture(base64.b64decode(picture))).decode()
        if "metadata" in output:
            output.metadata = {}
        if "text/plain" in output.get("data", {}):
            output.data["text/plain"] = _ADDRESS.sub("", output.data["text/plain"])
        if last is not None and _is_kept(last):
            yield last
        last = output
    if last is not None and _is_kept(last):
        yield last


def _is_kept(output: Any) -> bool:
    if output.get("name") != "stderr":
        return True
    lines = [line for line in output.text.splitlines(keepends=True) if not _START_OF_SPARK.match(line)]
    output.text = "".join(lines)
    return bool(output.text.strip())


def small_picture(content: bytes) -> bytes:
    """Return a PNG with at most 256 colours, which charts do with, and without what its maker wrote of itself."""
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        small = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
    result = io.BytesIO()
    small.save(result, "PNG", optimize=True)
    return result.getvalue()
