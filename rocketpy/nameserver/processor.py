"""Composition of the nameserver's request processors: registration, routes, KV configuration, settings.

Each processor reads the header, asks the tables (``route_info``, ``kv_config``, ``config``) and writes the reply. The
tables hold the meaning; processors know only headers and bodies. Rule: a refused request has changed nothing, and its
remark names the field. Rule: work is done in slices of a few milliseconds (``slices``): the first two at once, the
others in a task, so that other requests are served in between.

Compatibility: ``DefaultRequestProcessor`` of 4.9.8, with these differences. A missing or empty name is refused with
SYSTEM_ERROR, where Java goes on with null and answers not found, or success. The dispatcher answers an unknown request
code with REQUEST_CODE_NOT_SUPPORTED, where Java is silent and the caller times out. With ``clusterTest`` a topic that
is missing here is not looked up in another environment. The size of a registration and the total size of concurrent
registrations are bounded (SECURITY.md).
"""

from __future__ import annotations

from collections.abc import Callable

from rocketpy.nameserver.config import NamesrvConfiguration
from rocketpy.nameserver.kv_config import KVConfigManager
from rocketpy.nameserver.kv_requests import KVConfigProcessor
from rocketpy.nameserver.routes.registration import RegistrationProcessor
from rocketpy.nameserver.routes.requests import RouteProcessor
from rocketpy.nameserver.routes.route_info import RouteInfoManager
from rocketpy.nameserver.settings_requests import NamesrvConfigProcessor
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher


class DefaultRequestProcessor:
    """All request codes of one nameserver."""

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
        """Register every request code with the dispatcher."""
        for processor in self._processors:
            processor.register(dispatcher)
