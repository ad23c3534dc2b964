"""Options of every connection to a cluster: its nameservers and the account."""

from __future__ import annotations

from rocketpy.spark.options.kinds import ADDRESSES, TEXT, whole_number
from rocketpy.spark.options.option import Mode, Option, modes

REQUEST_TIMEOUT_MS_MAX = 600_000

_CONNECTED = modes(Mode.LIVE, Mode.STREAM, Mode.SINK)

NAME_SERVER: Option[tuple[str, ...]] = Option(
    "nameServer",
    ADDRESSES,
    (),
    _CONNECTED,
    "Nameservers of the cluster.",
    aliases=("nameserver.addr",),
    shown_default="required",
)
REQUEST_TIMEOUT_MS: Option[int] = Option(
    "requestTimeoutMs",
    whole_number(1, REQUEST_TIMEOUT_MS_MAX),
    10_000,
    _CONNECTED,
    "How long a connection or an answer may take.",
    aliases=("pullTimeoutMs", "pull.timeout.ms"),
)
ACCESS_KEY: Option[str | None] = Option(
    "accessKey", TEXT, None, _CONNECTED, "Account that signs requests; with `secretKey`."
)
SECRET_KEY: Option[str | None] = Option("secretKey", TEXT, None, _CONNECTED, "Secret of that account.", secret=True)
OPTIONS = (NAME_SERVER, REQUEST_TIMEOUT_MS, ACCESS_KEY, SECRET_KEY)
