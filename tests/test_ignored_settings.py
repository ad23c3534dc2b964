"""The program that ignores a setting finds the test that does not see what the setting does."""

from __future__ import annotations

from tests.ignored_settings import named_tests, passes_without

REGION_TEST = "tests/broker/test_settings_end_to_end.py::test_producers_get_the_region"


def test_a_test_fails_without_its_setting_and_passes_without_another() -> None:
    assert ("BrokerConfig", "regionId", REGION_TEST) in named_tests()
    assert not passes_without("regionId", REGION_TEST)
    assert passes_without("traceOn", REGION_TEST)
