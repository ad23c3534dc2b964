"""Derives from what the processors declare (:mod:`.needs`) what one request needs of the account that made it.

With multi-dispatch a send or reply that names queues (INNER_MULTI_DISPATCH) also needs PUB on each of them that is a
topic; with ``aclStrict`` on light queues too.

Compatibility: RocketMQ (4.9.8) puts a message into every queue that it names, whatever its sender may do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rocketpy.broker.acl.needs import ADMIN, Needed, Needs
from rocketpy.broker.acl.permission import PUB
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.properties import PROPERTIES_TEXT_MAX, PROPERTY_INNER_MULTI_DISPATCH, decode_properties
from rocketpy.protocol.topic_name import LMQ_PREFIX
from rocketpy.store.queue.multi_dispatch import NAMES_MAX, name_fault, named_queues

BODY_SIZE_MAX: Final = 131_072
"""The default of ``clientBodyBytesMax``."""


def needs_by_code(declared: Mapping[int, object]) -> dict[int, Needs]:
    """Return what each registered request code needs; one that was registered without a declaration: ADMIN."""
    return {code: needs if isinstance(needs, Needs) else ADMIN for code, needs in declared.items()}


def needed_permissions(
    request: RemotingCommand,
    needs: Needs,
    *,
    is_strict: bool,
    multi_dispatch: bool = False,
    body_size_max: int = BODY_SIZE_MAX,
) -> Needed:
    """Return the permissions that a request needs; AclError when its body cannot be decoded.

    ``multi_dispatch``: messages go into the queues that they name. A body of more than ``body_size_max`` bytes is not
    decoded, as its processor would not decode it.
    """
    needed = needs.resources(request, body_size_max)
    if is_strict:
        needed |= needs.strict_resources(request, body_size_max)
    if multi_dispatch and needs.properties_field is not None:
        _add_named_queues(needed, (request.ext_fields or {}).get(needs.properties_field), is_strict=is_strict)
    return needed


def _add_named_queues(needed: Needed, properties: str | None, *, is_strict: bool) -> None:
    """Add PUB on what a message names. A name that no message may have needs no permission: the send is refused."""
    if properties is None or PROPERTY_INNER_MULTI_DISPATCH not in properties:
        return
    if len(properties) > PROPERTIES_TEXT_MAX:
        return  # refused whatever they say, and not parsed
    names = named_queues(decode_properties(properties).get(PROPERTY_INNER_MULTI_DISPATCH, ""))
    for name in names[:NAMES_MAX]:  # a message with more is not stored
        if name_fault(name) is None and (is_strict or not name.startswith(LMQ_PREFIX)):
            needed.setdefault(name, PUB)
