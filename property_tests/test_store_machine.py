"""What a store promises, held against every order of events that Hypothesis can think of: see ``store_machine.py``."""

from __future__ import annotations

from property_tests.store_machine import StoreMachine

TestStore = StoreMachine.TestCase
