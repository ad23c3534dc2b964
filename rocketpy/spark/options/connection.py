"""Options of every connection to a cluster: its nameservers, the account, TLS."""

from __future__ import annotations

from rocketpy.spark.options.kinds import ADDRESSES, BOOLEAN, TEXT, whole_number
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
    "How long a connection or an answer may take, and how long a reading task tries a broker again whose connection "
    "it has lost.",
    aliases=("pullTimeoutMs", "pull.timeout.ms"),
)
ACCESS_KEY: Option[str | None] = Option(
    "accessKey", TEXT, None, _CONNECTED, "Account that signs requests; with `secretKey`."
)
SECRET_KEY: Option[str | None] = Option("secretKey", TEXT, None, _CONNECTED, "Secret of that account.", secret=True)
TLS: Option[bool] = Option(
    "tls", BOOLEAN, False, _CONNECTED, "Connect to nameservers and brokers by TLS.", aliases=("useTLS",)
)
TLS_CA_FILE: Option[str | None] = Option(
    "tlsCaFile",
    TEXT,
    None,
    _CONNECTED,
    "PEM file of trusted issuers, on every executor. Without it, those of the system; writes need it.",
)
TLS_INSECURE: Option[bool] = Option(
    "tlsInsecure", BOOLEAN, False, _CONNECTED, "Accept any certificate, as RocketMQ's clients do by default."
)
TLS_CERT_FILE: Option[str | None] = Option(
    "tlsCertFile", TEXT, None, _CONNECTED, "PEM file of the client's certificate, on every executor."
)
TLS_KEY_FILE: Option[str | None] = Option(
    "tlsKeyFile", TEXT, None, _CONNECTED, "PEM file of its key, if not in the same file."
)
TLS_KEY_PASSWORD: Option[str | None] = Option(
    "tlsKeyPassword", TEXT, None, _CONNECTED, "Password of the key.", secret=True
)

OPTIONS = (
    NAME_SERVER,
    REQUEST_TIMEOUT_MS,
    ACCESS_KEY,
    SECRET_KEY,
    TLS,
    TLS_CA_FILE,
    TLS_INSECURE,
    TLS_CERT_FILE,
    TLS_KEY_FILE,
    TLS_KEY_PASSWORD,
)
