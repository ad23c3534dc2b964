"""What an open store has, also where a unit leads nowhere."""

from __future__ import annotations

from rocketpy.protocol.topic_name import SCHEDULE_TOPIC
from rocketpy.store.config import MessageStoreConfig
from rocketpy.testing.store_contents import delay_ms, tags_code_of
from rocketpy.testing.store_world import StoreWorld

CONFIG = MessageStoreConfig(store_path_root_dir="/store", mapped_file_size_commit_log=4096, message_index_enable=False)
LOG_FILE = "/store/commitlog/00000000000000000000"
QUEUE_FILE = "/store/consumequeue/T/0/00000000000000000000"


def test_a_unit_that_leads_nowhere_is_left_out() -> None:
    with StoreWorld(CONFIG) as world:
        world.open()
        messages = [world.put("T", 0, b"%d" % number) for number in range(60)]
        world.end_burst()
        file = world.disk.open(QUEUE_FILE)
        file.write(3 * 20, (5).to_bytes(8, "big"))
        queues, log = world.contents()
        assert queues == {("T", 0): [*messages[:3], *messages[4:]]}
        assert log == messages


def test_a_cold_queue_is_read_like_a_warm_one() -> None:
    with StoreWorld(CONFIG) as world:
        world.open()
        messages = [world.put("T", 0, b"%d" % number) for number in range(5)]
        world.end_burst()
        world.disk.evict(QUEUE_FILE)
        world.disk.evict(LOG_FILE)
        assert world.contents() == ({("T", 0): messages}, messages)


def test_the_tags_code_of_a_delayed_message_is_a_time() -> None:
    assert tags_code_of(SCHEDULE_TOPIC, {"DELAY": "3"}, 1_000_000) == 1_000_000 + delay_ms(3)
    assert tags_code_of("T", {"TAGS": "A"}, 1_000_000) == ord("A")
    assert tags_code_of("T", {}, 1_000_000) == 0
