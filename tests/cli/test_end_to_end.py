"""The command line once against a real rocketpy cluster: a session as README tells it."""

from __future__ import annotations

import json
from pathlib import Path

from rocketpy.remoting.config import TlsClientConfig
from tests.cli.conftest import Ended, run
from tests.client.real_cluster import open_real_cluster
from tests.remoting.certificate_files import crt, server_config


async def test_a_first_session(tmp_path: Path) -> None:
    async with open_real_cluster(tmp_path) as cluster:

        async def rocketpy(*arguments: str, stdin: bytes = b"") -> list[str]:
            ended = await run(*arguments, stdin=stdin, NAMESRV_ADDR=cluster.address)
            assert ended.status == 0, ended
            return ended.lines

        assert await rocketpy("topic", "create", "hello", "-q", "2") == [f"hello: 2 queues on {cluster.broker_address}"]
        fewer = await run("topic", "create", "hello", "-q", "1", NAMESRV_ADDR=cluster.address)
        assert "hello had 2 queues on broker-a, and no consumer reads queue 1 any more" in fewer.errors
        assert await rocketpy("topic", "create", "hello", "-q", "2") == [f"hello: 2 queues on {cluster.broker_address}"]
        wrong = await run("consume", "-t", "hello", "-e", "-n", cluster.broker_address)
        assert (wrong.status, len(wrong.errors.splitlines())) == (1, 1)
        assert "this is a broker, name the nameserver (port 9876 by default)" in wrong.errors
        assert ["hello", "broker-a", "2", "2", "RW"] in [line.split() for line in await rocketpy("topic", "list")]
        numbers = [str(number) for number in range(1000)]
        await rocketpy("produce", "-t", "hello", "-T", "blue", stdin="\n".join(numbers).encode())
        found = await rocketpy("consume", "-t", "hello", "-o", "beginning", "-e", "--commit")
        assert sorted(found, key=int) == numbers
        assert await rocketpy("consume", "-t", "hello", "-o", "stored", "-e") == []
        assert len(await rocketpy("consume", "-t", "hello", "-o", "beginning", "-e", "-g", "another")) == len(numbers)
        await rocketpy("produce", "-t", "hello", "-K", ":", "-q", "1", stdin=b"key:later\n")
        (last,) = await rocketpy("consume", "-t", "hello", "-o", "stored", "-e", "--json")
        assert (json.loads(last)["body"], json.loads(last)["keys"], json.loads(last)["queue_id"]) == ("later", "key", 1)


async def test_the_same_over_tls(tmp_path: Path) -> None:
    config = tmp_path / "tls.properties"
    config.write_text(
        "tls.test.mode.enable=false\ntls.client.authServer=true\n"
        f"tls.client.trustCertPath={crt('authority')}\nsomething=else\n"
    )
    async with open_real_cluster(
        tmp_path, tls_server=server_config(server_mode="enforcing"), tls_client=TlsClientConfig(enable=True)
    ) as cluster:

        async def rocketpy(*arguments: str, stdin: bytes = b"") -> Ended:
            return await run(*arguments, stdin=stdin, NAMESRV_ADDR=cluster.address)

        assert (await rocketpy("topic", "create", "hello", "--tls")).status == 0
        assert "hello" in (await rocketpy("topic", "list", "-q", "--tls-config", str(config))).lines
        assert (await rocketpy("produce", "-t", "hello", "--tls-config", str(config), stdin=b"by tls\n")).status == 0
        found = await rocketpy("consume", "-t", "hello", "-o", "beginning", "-e", "--tls")
        assert found.lines == ["by tls"]
        plain = await rocketpy("topic", "list")
        assert (plain.status, plain.lines) == (1, [])
        config.write_text(config.read_text().replace("authority", "stranger"))
        refused = await rocketpy("topic", "list", "--tls-config", str(config))
        assert refused.status == 1
        assert "unknown key something has no effect" in refused.errors
        assert "certificate verify failed" in refused.errors
        missing = await rocketpy("topic", "list", "--tls-config", "/no/such")
        expected = "rocketpy: /no/such: cannot be read: No such file or directory\n"
        assert (missing.status, missing.errors) == (1, expected)
