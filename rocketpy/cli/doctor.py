"""``rocketpy doctor``: what is wrong with a cluster, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from rocketpy.cli.options import DEFAULT_NAME_SERVER, Credentials, NameServers, Tls, TlsFile, chosen_config
from rocketpy.cli.outcome import FAILED, outcome, run_async
from rocketpy.cli.printing import print_json, print_line

if TYPE_CHECKING:
    from rocketpy.client.config import ClientConfig
    from rocketpy.client.diagnosis.doctor import Diagnosis


def doctor(
    namesrv: NameServers = DEFAULT_NAME_SERVER,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    watch: Annotated[
        float, typer.Option("--watch", min=0, max=600, help="Seconds between two looks at the progress of groups.")
    ] = 3.0,
    tls: Tls = False,
    tls_file: TlsFile = "",
    credentials: Credentials = "",
) -> None:
    """Look for what is wrong with a cluster: unreachable addresses, clocks, disks, replication, stuck consumers.

    Every advertised address is dialled from this machine. Nothing is changed. Exit status: 0 no problem, 1 a problem,
    2 wrong usage; notes are no problem.
    """
    with outcome():
        diagnosis = run_async(_diagnose, namesrv, chosen_config(tls, tls_file, credentials), watch)
        if json:
            print_json(_fields(diagnosis))
        else:
            _print(diagnosis)
    if diagnosis.problem_count:
        raise typer.Exit(FAILED)


async def _diagnose(namesrv: str, config: ClientConfig, watch: float) -> Diagnosis:
    from rocketpy.client.client import open_admin_client
    from rocketpy.client.diagnosis.doctor import Doctor
    from rocketpy.clock import SystemClock

    async with open_admin_client(namesrv, config=config) as admin:
        return await Doctor(admin, clock=SystemClock(), watch_seconds=watch).diagnose()


def _print(diagnosis: Diagnosis) -> None:
    for finding in diagnosis.findings:
        print_line(str(finding))
    notes = len(diagnosis.findings) - diagnosis.problem_count
    print_line(
        f"{_counted(diagnosis.broker_count, 'broker')}, {_counted(diagnosis.group_count, 'group')}: "
        f"{_counted(diagnosis.problem_count, 'problem')}, {_counted(notes, 'note')}"
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _fields(diagnosis: Diagnosis) -> dict[str, object]:
    return {
        "brokers": diagnosis.broker_count,
        "groups": diagnosis.group_count,
        "problems": diagnosis.problem_count,
        "findings": [
            {
                "check": each.check,
                "severity": each.severity.value,
                "subject": each.subject,
                "problem": each.problem,
                "advice": each.advice,
            }
            for each in diagnosis.findings
        ],
    }
