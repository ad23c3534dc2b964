"""Runs notebooks and writes them with their outputs: ``python -m tests.notebooks [NAME ...]``, all by default.

A notebook is written only if nothing is wrong with it. Its pictures go to ``--pictures DIRECTORY`` as well, to be
looked at: what a program can find is checked, whether a picture teaches anything is not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import nbformat

from tests.notebooks.cleaning import cleaned, defects, pictures
from tests.notebooks.execution import Run, notebook_paths, run_notebook


def main(arguments: list[str]) -> int:
    """Run the named notebooks; 1 if one has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.notebooks", description=__doc__)
    known = {path.stem: path for path in notebook_paths()}
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(known)}")
    parser.add_argument("--pictures", type=Path, metavar="DIRECTORY", help="write the pictures there, too")
    given = parser.parse_args(arguments)
    names = [Path(name).stem for name in given.names] or list(known)
    if unknown := [name for name in names if name not in known]:
        parser.error(f"no notebook {unknown[0]}, expected one of {', '.join(known)}")
    results = [write(known[name], given.pictures) for name in names]
    return 0 if all(results) else 1


def write(path: Path, folder: Path | None) -> bool:
    """Run a notebook and write it if nothing is wrong; return whether it was written."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rocketpy-notebook-", ignore_cleanup_errors=True) as directory:
        run = run_notebook(path, Path(directory))
    seconds = time.monotonic() - begun
    notebook = cleaned(run.notebook)
    found = [*defects(notebook), *defects_of(run)]
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for number, picture in enumerate(pictures(notebook), 1):
            (folder / f"{path.stem}-{number}.png").write_bytes(picture)
    sizes = ", ".join(f"{len(picture) / 1000:.0f} KB" for picture in pictures(notebook))
    print(f"{path.name}: {seconds:.1f} s, pictures of {sizes or 'none'}")
    for defect in found:
        print(f"  {defect}", file=sys.stderr)
    if not found:
        nbformat.write(notebook, path)
    return not found


def defects_of(run: Run) -> list[str]:
    """Return a sentence for each defect of a run that its notebook does not show."""
    found = [f"picture {each['title']!r}: {defect}" for each in run.pictures for defect in each["defects"]]
    shown = len(list(pictures(run.notebook)))
    if len(run.pictures) != shown:
        found.append(f"{len(run.pictures)} pictures were drawn and {shown} are shown")
    return found + [f"leaves {name} behind" for name in run.left]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
