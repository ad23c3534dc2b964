"""Answers every request of a nameserver: reads the header, asks the tables, writes the reply.

What a request means is in the tables (``route_info``, ``kv_config``, ``config``); what is here is the shape of
questions and answers. Rule: a request that is refused has changed nothing, and its remark names the field. Rule: what a
request asks for is done in slices of some milliseconds: the first two at once, the others in a task between which
everything else is served.

Compatibility: ``DefaultRequestProcessor`` of 4.9.8, with these differences. A missing or empty name is refused with
SYSTEM_ERROR, where Java goes on with null and answers not found, or success. Request codes that a nameserver does not
know are answered REQUEST_CODE_NOT_SUPPORTED by the dispatcher, where Java is silent and the caller times out.
With ``clusterTest`` a topic that is missing here is not looked up in another environment. What a registration may bring
is bounded, and so is what is registered at a time (SECURITY.md).
"""

from __future__ import annotations

from collections.abc import Callable

from rocketpy.nameserver.config import NamesrvConfiguration
from rocketpy.nameserver.kv_config import KVConfigManager
from rocketpy.nameserver.kv_requests import KVConfigProcessor
from rocketpy.nameserver.registration import RegistrationProcessor
from rocketpy.nameserver.route_info import RouteInfoManager
from rocketpy.nameserver.route_requests import RouteProcessor
from rocketpy.nameserver.settings_requests import NamesrvConfigProcessor
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher


class DefaultRequestProcessor:
    """The request codes of one nameserver over its tables."""

    def __init__(
        self,
        *,
        route_info: RouteInfoManager[Connection],
        kv_config: KVConfigManager,
        configuration: NamesrvConfiguration,
        current_time: Callable[[], float],
    ) -> None:
        self._processors = (
            RegistrationProcessor(
                route_info=route_info, kv_config=kv_config, configuration=configuration, current_time=current_time
            ),
            RouteProcessor(route_info=route_info, kv_config=kv_config, configuration=configuration),
            KVConfigProcessor(kv_config=kv_config),
            NamesrvConfigProcessor(configuration=configuration),
        )

    def register_with(self, dispatcher: Dispatcher) -> None:
        """Enter every request code into the dispatcher's table."""
        for processor in self._processors:
            processor.register(dispatcher)
