"""Runs the programs of ``docs/examples`` as their docstrings say, and knows what each prints.

They run in this process: an interpreter of their own would take longer to start than most of them to run.
"""

from __future__ import annotations

import io
import runpy
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"

BROKER_SETTINGS = {"transactionCheckInterval": "1000", "transactionTimeOut": "1000"}
"""Settings of a broker with which ``transaction.py`` is soon asked."""

PRINTED = {
    "acl": r"taken without a signature\n((un)?signed\n){2}",
    "administer": r"4 messages skipped\n",
    "asyncio_program": r"5 messages\n",
    "batch": r"100 messages from offset 0 of queue \d+\n100 messages collected\n",
    "broadcast": r"first: 5 messages\nsecond: 5 messages\n",
    "delayed": r"delivered after [1-9]\d{3,} ms\n",
    "drain": r"all finished\n1 of 10 handled\n",
    "drain_asyncio": r"all finished\n1 of 10 handled\n",
    "drain_plain": r"all finished\n1 of 10 handled\n",
    "filter": r"50 in the east\nan order is created\nan order is paid\n",
    "group": r"10 messages\n",
    "lite_pull": r"10 messages\nagain: message \d\n",
    "namespace": r"blue reads from Namespace: for blue\ngreen reads from Namespace: for green\n"
    r"blue%Namespace green%Namespace\n",
    "ordered": "".join(rf"order {number}: created, paid, shipped\n" for number in (1, 2, 3)),
    "plain": r"(message [012]\n){3}",
    "pull": r"\d \d one more\n1 messages\n",
    "request_reply": r"HELLO\n",
    "retry": r"what is given back comes again .*\nattempt 1: an impossible order\nattempt 2: an impossible order\n"
    r"dead letter: an impossible order\n",
    "simple": r"(SEND_OK \d+\n){3}7 more\n",
    "trace": r"sent by trace_producer: stored\nhandled by trace: SUCCESS\n",
    "transaction": r"the broker asks about order 3 soon, .*\n(the broker asks about order 3\n)+"
    r"consumed: order 1, order 3\n",
}
"""What each program prints that is given the nameserver and nothing else, as a regular expression."""

ACCESS_KEY, SECRET_KEY = "example-key", "example-secret"
ACCOUNTS = f"""\
accounts:
  - accessKey: {ACCESS_KEY}
    secretKey: {SECRET_KEY}
    defaultTopicPerm: PUB|SUB
    defaultGroupPerm: SUB
"""
"""The file of accounts of a broker for ``acl.py``."""


def run_example(name: str, *arguments: str, home: Path) -> str:
    """Run an example with arguments; return what it prints. Files in the user's home go to ``home``."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.setattr(sys, "argv", [f"{name}.py", *arguments])
        patch.setenv("HOME", str(home))
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return printed.getvalue()
