"""A pytest plugin for runs against mutants: Hypothesis does not make its failing examples smaller.

That a mutant fails is all that is asked. Shrinking a history of a state machine takes minutes.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, settings

NAME = "rocketpy-mutants"


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Replace the profile that the conftests have chosen by the same one without shrinking."""
    chosen = settings.get_profile(settings.get_current_profile_name())
    settings.register_profile(NAME, chosen, phases=(Phase.explicit, Phase.generate))
    settings.load_profile(NAME)
