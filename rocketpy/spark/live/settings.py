"""The options of a read of a live cluster, as one value that travels to the executors."""

from __future__ import annotations

import attrs

from rocketpy.spark.filters import EVERYTHING, MessageFilter, Range
from rocketpy.spark.live.access import ClusterAccess, access_of
from rocketpy.spark.live.limits import Limit, ending_limit, starting_limit
from rocketpy.spark.live.subscription import (
    CHOOSES_EVERYTHING,
    Expression,
    Subscription,
    expression_of,
    subscription_of,
)
from rocketpy.spark.options.live import (
    CONSUMER_GROUP,
    DEFAULT_CONSUMER_GROUP,
    ENDING_OFFSETS,
    FAIL_ON_DATA_LOSS,
    LATEST_WORD,
    MAX_RECORDS_PER_PARTITION,
    PULL_BATCH_SIZE,
    READ_FROM,
)
from rocketpy.spark.options.option import Mode, OptionValues
from rocketpy.spark.options.reading import DECOMPRESS, END_TIMESTAMP, MIN_PARTITIONS, START_TIMESTAMP


@attrs.frozen(kw_only=True)
class PullSettings:
    """What a task needs to read a piece of a queue."""

    access: ClusterAccess
    expression: Expression = CHOOSES_EVERYTHING
    wants: MessageFilter = EVERYTHING
    consumer_group: str = DEFAULT_CONSUMER_GROUP
    batch_size: int = PULL_BATCH_SIZE.default
    decompress: bool = True
    fail_on_data_loss: bool = True


@attrs.frozen(kw_only=True)
class LiveSettings:
    """Validated options of a read of a live cluster."""

    pull: PullSettings
    subscription: Subscription
    starting: Limit
    ending: Limit  # of a batch; a stream has none
    partitions_min: int = 1
    records_max: int | None = None  # of a partition
    read_from: str = READ_FROM.default

    @property
    def reads_slaves(self) -> bool:
        """Whether slaves may be read, and asked while there is no master."""
        return self.read_from != READ_FROM.default


def settings_of(values: OptionValues) -> LiveSettings:
    """Return options of mode LIVE or STREAM as settings; :class:`SettingsError` for the first that is wrong."""
    return LiveSettings(
        pull=pull_settings_of(values),
        subscription=subscription_of(values),
        starting=starting_limit(values),
        ending=ending_limit(values) if values.mode is Mode.LIVE else Limit(ENDING_OFFSETS.name, LATEST_WORD),
        partitions_min=values[MIN_PARTITIONS],
        records_max=values[MAX_RECORDS_PER_PARTITION],
        read_from=values[READ_FROM],
    )


def pull_settings_of(values: OptionValues) -> PullSettings:
    """Return what tasks need of options of mode LIVE or STREAM; :class:`SettingsError` for the first that is wrong."""
    expression = expression_of(values)
    wants = MessageFilter(tags=expression.tags)
    if values.mode is Mode.LIVE:
        wants = attrs.evolve(wants, store_timestamps_ms=Range(values[START_TIMESTAMP], values[END_TIMESTAMP]))
    return PullSettings(
        access=access_of(values),
        expression=expression,
        wants=wants,
        consumer_group=values[CONSUMER_GROUP],
        batch_size=values[PULL_BATCH_SIZE],
        decompress=values[DECOMPRESS],
        fail_on_data_loss=values[FAIL_ON_DATA_LOSS],
    )
