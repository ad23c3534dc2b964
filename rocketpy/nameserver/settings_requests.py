"""GET_NAMESRV_CONFIG and UPDATE_NAMESRV_CONFIG."""

from __future__ import annotations

import logging

import attrs

from rocketpy.errors import RequestError, SettingsError, StoreError
from rocketpy.nameserver.config import NamesrvConfiguration
from rocketpy.nameserver.refusals import not_written
from rocketpy.properties_text import decode_properties_text, format_properties, read_properties
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher

SETTINGS_SIZE_MAX = 16_384
"""Bound of the properties text in a request; all settings with their defaults take about 2 KiB."""

_log = logging.getLogger("rocketpy.nameserver")


@attrs.define(eq=False, kw_only=True)
class NamesrvConfigProcessor:
    """Serves the requests for the nameserver's own settings."""

    _configuration: NamesrvConfiguration

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request codes; the one that writes the file runs as a task."""
        dispatcher.register(RequestCode.GET_NAMESRV_CONFIG, self.get_namesrv_config)
        dispatcher.register_task(RequestCode.UPDATE_NAMESRV_CONFIG, self.update_namesrv_config)

    def get_namesrv_config(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """319: return every setting as properties text."""
        return make_response(request, body=format_properties(self._configuration.values()).encode())

    async def update_namesrv_config(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """318: change settings; answered once they are in the file."""
        size = len(request.body or b"")
        if size > SETTINGS_SIZE_MAX:
            remark = f"nothing has changed: body: expected at most {SETTINGS_SIZE_MAX} bytes of settings, found {size}"
            raise RequestError(ResponseCode.SYSTEM_ERROR, remark)
        text = decode_properties_text(request.body or b"")
        try:
            refused = self._configuration.refused_key(text)
            if refused is not None:
                remark = f"Can not update config in black list. {refused} is changed in the file, with a restart"
                return make_response(request, ResponseCode.NO_PERMISSION, remark)
            left = await self._configuration.update(text)
        except SettingsError as error:
            raise RequestError(ResponseCode.SYSTEM_ERROR, str(error)) from error
        except StoreError as error:
            raise not_written(error) from error
        changed = ", ".join(line.key for line in read_properties(text))
        _log.info("settings changed by %s: %s", connection.peer, changed)
        later = f"takes effect with the next start: {', '.join(left)}" if left else None
        return make_response(request, remark=later)
