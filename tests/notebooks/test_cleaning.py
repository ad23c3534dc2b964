"""What a notebook is cleaned of, and what keeps one from being committed."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from typing import Any

import pytest

from tests.notebooks.cleaning import cleaned, defects, pictures, source_hash

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (the extra: dev)")
new = nbformat.v4


def png(*, side: int = 100) -> bytes:
    """A picture of noise, which no compression makes small."""
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed (the extra: dev)")
    result = io.BytesIO()
    image.effect_noise((side, side), 100).save(result, "PNG")
    return result.getvalue()


def shown(content: bytes) -> Any:
    return new.new_output("display_data", {"image/png": base64.b64encode(content).decode()})


def printed(text: str, stream: str = "stdout") -> Any:
    return new.new_output("stream", name=stream, text=text)


def notebook(*outputs: Any) -> Any:
    cells = [
        new.new_markdown_cell("text"),
        new.new_code_cell("print(1)", execution_count=1, outputs=[printed("1\n")]),
        new.new_code_cell("plot()", execution_count=2, outputs=[shown(png()), *outputs]),
    ]
    cells[2].metadata["execution"] = {"iopub.status.busy": "2026-01-31T10:00:00Z"}
    return new.new_notebook(cells=cells, metadata={"language_info": {"name": "python", "version": "3.11.7"}})


def test_a_notebook_that_was_run_is_clean_after_cleaning_and_stays_so() -> None:
    value = cleaned(notebook(printed("a"), printed("b\n"), new.new_output("execute_result", {"text/plain": "<A at 0x7f>"})))
    assert list(defects(value)) == []
    assert value.cells[2].metadata == {}
    assert [output.get("text") for output in value.cells[2].outputs] == [None, "ab\n", None]
    assert value.cells[2].outputs[2].data == {"text/plain": "<A>"}
    assert cleaned(nbformat.reads(nbformat.writes(value), as_version=4)) == value


def test_what_java_prints_when_it_starts_is_left_out_and_other_warnings_are_not() -> None:
    noise = (
        "WARNING: Using incubator modules: jdk.incubator.vector\n"
        'Setting default log level to "WARN".\n'
        "26/01/31 10:00:00 WARN NativeCodeLoader: Unable to load native-hadoop library\n"
    )
    assert len(cleaned(notebook(printed(noise, "stderr"))).cells[2].outputs) == 1
    (defect,) = defects(cleaned(notebook(printed(noise + "DeprecationWarning: no more\n", "stderr"))))
    assert defect == "cell 2 has printed to stderr: 'DeprecationWarning: no more\\n'"


def test_pictures_keep_their_size_and_lose_what_their_maker_wrote() -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed (the extra: dev)")
    value = cleaned(notebook())
    (small,) = pictures(value)
    with image.open(io.BytesIO(small)) as picture:
        assert (picture.size, picture.mode, picture.info.keys()) == ((100, 100), "P", set())


def change_code(value: Any) -> None:
    value.cells[1].source = "print(2)"


def run_twice(value: Any) -> None:
    value.cells[1].execution_count = 3


def forget(value: Any) -> None:
    value.metadata.pop("rocketpy")


def add_time(value: Any) -> None:
    value.cells[1].metadata["execution"] = {}


def widen(value: Any) -> None:
    value.cells[1].source += "#" * 120
    value.metadata["rocketpy"] = {"sources": source_hash(value)}


def show(*outputs: Any) -> Callable[[Any], None]:
    return lambda value: value.cells[1].outputs.extend(outputs)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (change_code, "the code is not that which the outputs are of"),
        (forget, "the code is not that which the outputs are of"),
        (run_twice, "the cells were not run in their order"),
        (widen, "cell 1 has a line of more than 120 characters"),
        (add_time, "cell 1 has metadata: ['execution']"),
        (show(new.new_output("error", ename="KeyError", evalue="x", traceback=[])), "cell 1 has failed: KeyError"),
        (show(printed("in /tmp/rocketmq-x/store\n")), "cell 1 shows a path of a machine: /tmp/rocketmq-x/store"),
        (show(printed("\x1b[32mgreen")), "cell 1 shows escapes of a terminal"),
        (
            show(new.new_output("execute_result", {"text/plain": "'/home/me/a'"})),
            "cell 1 shows a path of a machine: /home/me/a",
        ),
        (show(shown(png(side=400))), "a picture of "),
        (show(shown(png(side=4))), "a picture of "),
    ],
)
def test_each_defect_is_named(change: Callable[[Any], None], sentence: str) -> None:
    value = cleaned(notebook())
    change(value)
    (defect,) = defects(value)
    assert defect.startswith(sentence)


def test_the_text_may_change_without_a_run_and_relative_paths_may_be_shown() -> None:
    value = cleaned(notebook(printed("commitlog/00000000000000000000, a/tmp/b, tests/golden/x.tar.xz, 1/2\n")))
    value.cells[0].source = "another text"
    assert list(defects(value)) == []


def test_the_name_of_the_machine_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "vm-7")
    value = cleaned(notebook(printed("broker vm-7\n")))
    assert list(defects(value)) == ["cell 2 shows the name of this machine: vm-7"]
