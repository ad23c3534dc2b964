"""Test files run on both builds where a kernel and the path that stands in for it are compared, or chosen between."""

from __future__ import annotations

from tests.both_builds import ROOT, both_build_files


def test_they_are_those_that_name_kernels_and_the_mirrors_of_modules_that_choose() -> None:
    files = both_build_files()
    for name in (
        "tests/broker/send/test_fast_and_general_path.py",
        "tests/protocol/selector/test_sql92_kernel.py",
        "tests/remoting/test_connection.py",
        "tests/store/log/test_plain_records.py",
        "tests/test_extreme_calls.py",
    ):
        assert name in files
    assert "tests/protocol/test_message.py" not in files
    assert not [name for name in files if name.startswith("tests/protocol/kernels/")]
    assert all((ROOT / name).is_file() for name in files)
