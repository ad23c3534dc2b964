"""Requests that read and change the KV configuration."""

from __future__ import annotations

import logging

import attrs

from rocketpy.errors import StoreError
from rocketpy.nameserver.kv_config import KVConfigManager
from rocketpy.nameserver.refusals import check_names, not_written
from rocketpy.protocol.bodies.codec import encode_body
from rocketpy.protocol.bodies.route import KVTable
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand, make_response
from rocketpy.protocol.headers.codec import read_header
from rocketpy.protocol.headers.namesrv import (
    DeleteKVConfigRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    PutKVConfigRequestHeader,
)
from rocketpy.remoting.connection import Connection
from rocketpy.remoting.dispatch import Dispatcher

_SHOWN_CHARACTERS_MAX = 200

_log = logging.getLogger("rocketpy.nameserver")


@attrs.define(eq=False, kw_only=True)
class KVConfigProcessor:
    """Serves the requests for the KV configuration."""

    _kv_config: KVConfigManager

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the request codes; those that write the file run as tasks."""
        dispatcher.register(RequestCode.GET_KV_CONFIG, self.get_kv_config)
        dispatcher.register(RequestCode.GET_KVLIST_BY_NAMESPACE, self.get_kv_list_by_namespace)
        dispatcher.register_task(RequestCode.PUT_KV_CONFIG, self.put_kv_config)
        dispatcher.register_task(RequestCode.DELETE_KV_CONFIG, self.delete_kv_config)

    def get_kv_config(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """101: return one value."""
        header = read_header(request, GetKVConfigRequestHeader)
        check_names(header, namespace=header.namespace, key=header.key)
        value = self._kv_config.get(header.namespace, header.key)
        if value is None:
            remark = f"No config item, Namespace: {header.namespace} Key: {header.key}"
            code = ResponseCode.QUERY_NOT_FOUND
            return make_response(request, code, remark, header=GetKVConfigResponseHeader(value=None))
        return make_response(request, header=GetKVConfigResponseHeader(value=value))

    def get_kv_list_by_namespace(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """219: return all values of a namespace."""
        header = read_header(request, GetKVListByNamespaceRequestHeader)
        check_names(header, namespace=header.namespace)
        table = self._kv_config.namespace(header.namespace)
        if table is None:
            remark = f"No config item, Namespace: {header.namespace}"
            return make_response(request, ResponseCode.QUERY_NOT_FOUND, remark)
        return make_response(request, body=encode_body(KVTable(table=table)))

    async def put_kv_config(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """100: set a value; answered once it is durable."""
        header = read_header(request, PutKVConfigRequestHeader)
        check_names(header, namespace=header.namespace, key=header.key)
        try:
            await self._kv_config.put(header.namespace, header.key, header.value)
        except StoreError as error:
            raise not_written(error) from error
        value = (header.value or "")[:_SHOWN_CHARACTERS_MAX]
        _log.info("KV put: namespace=%r key=%r value=%r", header.namespace, header.key, value)
        return make_response(request)

    async def delete_kv_config(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """102: delete a value; answered once the deletion is durable."""
        header = read_header(request, DeleteKVConfigRequestHeader)
        check_names(header, namespace=header.namespace, key=header.key)
        try:
            await self._kv_config.delete(header.namespace, header.key)
        except StoreError as error:
            raise not_written(error) from error
        _log.info("KV deleted: namespace=%r key=%r", header.namespace, header.key)
        return make_response(request)
