"""What a store may hold of a process's descriptors."""

from __future__ import annotations

import pytest

from rocketpy.store.config import MessageStoreConfig
from rocketpy.store.disk.descriptor_budget import FIXED_COUNT, OPEN_FILES_MIN, DescriptorBudget, descriptor_budget


@pytest.mark.parametrize("process_max", [None, 1 << 20, 4096])
def test_a_process_with_many_leaves_the_setting_as_it_is(process_max: int | None) -> None:
    config = MessageStoreConfig(store_path_root_dir="/s", consume_queue_files_open_max=700)
    budget = descriptor_budget(config, process_max)
    assert budget == DescriptorBudget(700, 256)
    assert budget.total == 700 + FIXED_COUNT


@pytest.mark.parametrize("process_max", [256, 1024])
def test_of_few_the_store_takes_half(process_max: int) -> None:
    config = MessageStoreConfig(store_path_root_dir="/s", consume_queue_files_open_max=700)
    budget = descriptor_budget(config, process_max)
    assert budget.total == process_max // 2
    assert budget.files_per_flush_max == budget.open_files_max // 2


def test_a_store_cannot_do_with_none() -> None:
    budget = descriptor_budget(MessageStoreConfig(store_path_root_dir="/s"), 32)
    assert budget.open_files_max == OPEN_FILES_MIN
    assert budget.files_per_flush_max == OPEN_FILES_MIN // 2
