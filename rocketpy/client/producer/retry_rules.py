"""How often, after what and for how long a send is tried again.

Rule: the deadline of the whole send is RocketMQ's (``send_msg_timeout``). Each attempt has a deadline of its own within
it, so that a broker that is silent leaves time for another one: ``send_attempt_timeout``, or without it the remaining
time divided by the remaining attempts (of 3 s for three attempts: 1 s each). The last attempt has all the time that is
left, and so has the only one. Where the topic has one broker only, an attempt without a limit of its own goes on to the
end of the send: another attempt would only store the message again.

The next attempt begins at once as long as a broker of the topic is left that was not tried. After that there is a
pause: a tenth of a second at first, then twice as long each time, up to ``retry_pause_max``, and of each between a half
and the whole, so that the senders of a broker that comes back do not come all at once. Attempts that never left,
because there was no connection, do not count as attempts: they are repeated until the deadline. So the restart of the
only broker is a delay of the send and no failure.

Compatibility: ``DefaultMQProducerImpl.sendDefaultImpl`` and ``MQClientAPIImpl.onExceptionImpl`` (4.9.8). Java gives
every attempt all the remaining time: one silent broker uses up the call. ``send_attempt_timeout`` as long as
``send_msg_timeout`` does the same here. Java does not pause: while the only broker is away, a send fails within
milliseconds. ``retry_pause_max=0`` does the same here.
"""

from __future__ import annotations

from random import Random

import attrs

from rocketpy.client.producer.config import ProducerConfig

FIRST_PAUSE_SECONDS = 0.1
"""The first pause at most."""
_DOUBLINGS_MAX = 20


@attrs.frozen(kw_only=True)
class RetryRules:
    """The rules of one kind of send."""

    attempts: int
    timeout_s: float
    attempt_timeout_s: float | None = None
    """None: equal shares of the time that is left."""
    retry_codes: frozenset[int] = frozenset()
    """Refusals of a broker after which another one is tried; a transport failure always is one."""
    retry_not_store_ok: bool = False
    longest_pause_s: float = 0.0
    """0: none, and attempts that never left count as the others do."""

    @property
    def counts_unsent(self) -> bool:
        """Whether an attempt that never left is one of ``attempts``."""
        return self.attempts == 1 or not self.longest_pause_s

    def pause_s(self, pauses_made: int, randomness: Random) -> float:
        """Return the time from the beginning of an attempt to that of the next, with no other broker left to try."""
        longest = FIRST_PAUSE_SECONDS * float(2 ** min(pauses_made, _DOUBLINGS_MAX))
        return min(longest, self.longest_pause_s) * randomness.uniform(0.5, 1.0)

    def attempt_s(self, attempts_made: int, remaining_s: float) -> float:
        """Return the time of the next attempt."""
        attempts_left = self.attempts - attempts_made
        if attempts_left <= 1:
            return remaining_s
        share = remaining_s / attempts_left if self.attempt_timeout_s is None else self.attempt_timeout_s
        return min(share, remaining_s)


def sync_rules(config: ProducerConfig, timeout_s: float | None = None) -> RetryRules:
    """Return the rules of ``send``; ``timeout_s`` replaces the deadline of the whole send."""
    return RetryRules(
        attempts=1 + config.retry_times_when_send_failed,
        timeout_s=config.send_msg_timeout / 1000 if timeout_s is None else timeout_s,
        attempt_timeout_s=_seconds(config.send_attempt_timeout),
        retry_codes=frozenset(config.retry_response_codes),
        retry_not_store_ok=config.retry_another_broker_when_not_store_ok,
        longest_pause_s=config.retry_pause_max / 1000,
    )


def async_rules(config: ProducerConfig) -> RetryRules:
    """Return the rules of ``send_nowait``: as in Java, a refusal is final and any status will do."""
    return RetryRules(
        attempts=1 + config.retry_times_when_send_async_failed,
        timeout_s=config.send_msg_timeout / 1000,
        attempt_timeout_s=_seconds(config.send_attempt_timeout),
        longest_pause_s=config.retry_pause_max / 1000,
    )


def one_attempt(rules: RetryRules) -> RetryRules:
    """Return the same rules without a retry, for a queue that the caller has chosen."""
    return attrs.evolve(rules, attempts=1)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
