"""The guard over tests that are named for settings sees what a test varies, and fails one that varies nothing."""

from __future__ import annotations

import attrs
import pytest

from rocketpy.broker.config import BrokerConfig
from rocketpy.settings import settings_from_text
from rocketpy.store.config import MessageStoreConfig
from tests.varied_settings import Setting, SettingsNote, check_varied, named_tests

TEST, SETTINGS = next((test, settings) for test, settings in named_tests().items() if len(settings) > 1)


def noted(*, key: str, value: str = "7") -> set[Setting]:
    note = SettingsNote()
    note.open()
    try:
        settings_from_text(f"{key}={value}\n", "a file", BrokerConfig)
    finally:
        varied = note.close()
    return varied


def test_a_setting_with_another_value_is_noted_and_one_with_its_default_is_not() -> None:
    assert ("BrokerConfig", "defaultTopicQueueNums") in noted(key="defaultTopicQueueNums")
    assert ("BrokerConfig", "defaultTopicQueueNums") not in noted(key="defaultTopicQueueNums", value="8")
    assert ("BrokerConfig", "defaultTopicQueueNums") not in noted(key="regionId")


def test_what_is_made_from_others_or_changed_later_is_noted_too() -> None:
    note = SettingsNote()
    note.open()
    try:
        attrs.evolve(BrokerConfig(), region_id="Mars")
        object.__setattr__(MessageStoreConfig(), "max_message_size", 5)
    finally:
        varied = note.close()
    assert {("BrokerConfig", "regionId"), ("MessageStoreConfig", "maxMessageSize")} <= varied


def test_nothing_is_noted_any_more_when_the_note_is_closed() -> None:
    init = BrokerConfig.__init__
    noted(key="regionId")
    assert BrokerConfig.__init__ is init


def test_a_named_test_that_does_not_vary_all_of_its_settings_fails() -> None:
    check_varied(TEST, set(SETTINGS))
    with pytest.raises(AssertionError, match="it would pass if the setting were ignored"):
        check_varied(TEST, set(list(SETTINGS)[1:]))
