"""Accounts."""

from __future__ import annotations

from rocketpy.protocol.bodies.acl import AclConfig, ClusterAclVersionInfo, PlainAccessConfig
from rocketpy.protocol.bodies.codec import decode_body, encode_text
from rocketpy.protocol.bodies.topic import DataVersion

ACCOUNT = PlainAccessConfig("user", "12345678", topic_perms=["T=PUB"])


def test_a_secret_is_on_the_wire_and_in_no_message() -> None:
    assert encode_text(ACCOUNT) == ('{"accessKey":"user","admin":false,"secretKey":"12345678","topicPerms":["T=PUB"]}')
    assert "12345678" not in repr(AclConfig(plain_access_configs=[ACCOUNT]))


def test_versions_are_by_file() -> None:
    info = ClusterAclVersionInfo("b", "1.2.3.4:5", "c", DataVersion(1, 2), {"/conf/plain_acl.yml": DataVersion(1, 2)})
    assert decode_body(encode_text(info), ClusterAclVersionInfo) == info
