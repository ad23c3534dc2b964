"""Every block of every page is run by a test, or made by one, or is nothing to run: the rules here say which.

A page with a new block fails here until somebody has said how the block is held to be true.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs
import pytest

from tests.page_text import ROOT
from tests.pages.command_lines import Block, blocks_of, pages

RUN = "run"
"""A test runs it, as it stands."""

PART = "part"
"""Not a whole program: a test holds that it is part of one that is run, or what it says."""

TRIED = "tried"
"""Only its command lines are checked (``test_commands.py``): it needs what no test has."""

SHOWN = "shown"
"""Nothing to run: a drawing, or an output."""


@attrs.frozen
class Rule:
    """How the blocks of a page are held whose language is this and whose first line begins so."""

    language: str
    first: str
    kind: str
    by: str
    """The test that does it, or why there is none."""

    def fits(self, block: Block) -> bool:
        """Whether a block is one of these."""
        return block.language.partition(" ")[0] == self.language and re.match(self.first, block.first) is not None


README_SESSION = "tests/pages/test_readme.py::test_the_first_session_is_as_it_is_printed"
CLIENT_PROGRAMS = "tests/docs/test_client_page.py::test_the_programs_run_in_their_order"
CLIENT_EXCERPTS = "tests/docs/test_client_page.py::test_an_excerpt_is_the_text_of_an_example"
PLUG_INS = "tests/pages/test_operation.py::test_the_plug_in_and_the_hook_of_the_page_count_what_is_sent"
FIXTURE = "tests/docs/test_pages.py::test_the_tests_of_the_fixture_page_pass"
IMAGE = "tests/docs/test_pages.py::test_the_image_starts_what_there_is_and_its_health_check_tells_a_broker_that_serves"
SPARK_PAGE = "tests/spark/test_page_programs.py::test_the_programs_and_commands_of_the_page_run_in_their_order"
SPARK_README = "tests/spark/test_page_programs.py::test_the_program_of_readme_runs"

RULES: dict[str, tuple[Rule, ...]] = {
    "README.md": (
        Rule("", r"make broker", PART, "tests/test_readme_page.py::test_the_two_commands_are_targets_of_the_makefile"),
        Rule("console", r"\$ make broker", RUN, README_SESSION),
        Rule("console", r"\$ \. \.venv/bin/activate", RUN, README_SESSION),
        Rule("python", "import trio", RUN, README_SESSION),
        Rule("console", r"\$ python hello\.py", RUN, README_SESSION),
        Rule("java", "DefaultMQProducer", TRIED, "a client of others: tests/interop runs such programs"),
        Rule(
            "console",
            r"\$ python -m rocketpy\.nameserver",
            RUN,
            "tests/pages/test_readme.py::test_clients_on_other_machines_find_a_broker_that_is_started_as_the_page_says",
        ),
        Rule("python", "from rocketpy.spark.session", RUN, SPARK_README),
        Rule("console", r"\$ rocketpy store verify", RUN, README_SESSION),
    ),
    "docs/architecture.md": (
        Rule("", r"a send |\+--|open_message_store", SHOWN, "drawings"),
        Rule("python", "# my/", RUN, PLUG_INS),
    ),
    "docs/client.md": (
        Rule("python", "(import|from) ", RUN, CLIENT_PROGRAMS),
        Rule("python", "(?!import |from )", PART, CLIENT_EXCERPTS),
    ),
    "docs/containers.md": (
        Rule("bash", "rm -f", RUN, "tests/docs/test_pages.py::test_the_commands_of_the_container_page_run"),
        Rule(
            "python",
            "import json",
            RUN,
            "tests/pages/test_operation.py::test_a_program_that_starts_a_broker_reads_its_address",
        ),
        Rule("dockerfile", "# docker build", PART, IMAGE),
        Rule("properties", r"# broker\.conf", RUN, IMAGE),
        Rule(
            "console",
            r"\$ python -m rocketpy\.broker --groups 2",
            RUN,
            "tests/pages/test_operation.py::test_two_brokers_share_a_topic_that_is_created",
        ),
    ),
    "docs/doctor.md": (
        Rule(
            "console",
            r"\$ rocketpy doctor",
            RUN,
            "tests/pages/test_operation.py::test_the_doctor_says_of_a_new_broker_what_its_page_says",
        ),
    ),
    "docs/file-formats.md": (Rule("box", "0 ", PART, "tests/test_file_formats_page.py::test_a_box_is_its_struct"),),
    "docs/fixture.md": (Rule("python", ".", RUN, FIXTURE), Rule("ini", r"\[pytest\]", RUN, FIXTURE)),
    "docs/performance.md": (Rule("", "processor: ", SHOWN, "the machine of the figures"),),
    "docs/replication.md": (
        Rule(
            "properties",
            "# the master",
            RUN,
            "tests/pages/test_operation.py::test_master_and_slave_start_with_the_settings_of_the_page",
        ),
        Rule("", "this log and that of the master", SHOWN, "a line of a log, of two stores that have diverged"),
    ),
    "docs/spark.md": (
        Rule("python", ".", RUN, SPARK_PAGE),
        Rule("", "cp rocketpy_mq-", TRIED, "a cluster of Spark; tests/blackbox/test_spark_cluster.py runs one"),
        Rule("", "rocketpy pipeline", RUN, SPARK_PAGE),
        Rule("", r"\+----\+", RUN, SPARK_PAGE),
        Rule("sql", "CREATE TEMPORARY VIEW", RUN, SPARK_PAGE),
        Rule("", r"/archive/topic=|trace of ", SHOWN, "names of files, and an output"),
    ),
    "docs/testing.md": (Rule("", "ROCKETPY_TIER=ci", TRIED, "a test that has failed is named by its reader"),),
}


def rules() -> Iterator[tuple[str, Rule]]:
    return ((page, rule) for page, those in RULES.items() for rule in those)


@pytest.mark.parametrize("page", pages())
def test_every_block_is_classified_once(page: str) -> None:
    own = RULES.get(page, ())
    for block in blocks_of(page):
        fitting = [rule for rule in own if rule.fits(block)]
        assert len(fitting) == 1, f"{page}, a block of {block.language or 'no language'} that begins {block.first!r}"
    assert [rule.first for rule in own if not any(map(rule.fits, blocks_of(page)))] == [], "no block is one of these"


@pytest.mark.parametrize(("page", "rule"), [each for each in rules() if each[1].kind in (RUN, PART)])
def test_the_test_of_a_block_exists_and_reads_the_page(page: str, rule: Rule) -> None:
    path, _, name = rule.by.partition("::")
    text = (ROOT / path).read_text()
    assert re.search(rf"def {name}\w*\(", text), rule.by
    stem = page.rpartition("/")[2].removesuffix(".md").lower()
    assert stem in text.lower(), f"{path} does not read {page}"
