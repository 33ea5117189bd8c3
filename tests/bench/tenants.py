"""How long a team waits for its Topic beside a team that attacks the operator: `python tests/bench/tenants.py [--quick]`.

The attacker has 10,000 objects, Kafka clusters that are dead or hostile, drivers of which half attack who asks them, and drivers that
crash without end. The operator is a process that the kernel kills above 512 MiB, on a real API server and with a real Kafka broker.
The other team creates a Topic every few seconds, while the attack begins and afterwards. At the same time a plain client makes the
same requests to the API server and to Kafka, without the operator: all share the cores of one machine.

- `topic_p50_s`, `topic_max_s`: seconds from creating a Topic to its condition Ready.
- `api_p50_s`, `api_max_s`, `kafka_max_s`: the same requests by the plain client.
- `operator_max_s`: the largest delay of a Topic without the time of the plain client beside it.
- `loop_p50_s`, `loop_p99_s`, `loop_max_s`: how long the operator's event loop lets a timer wait.
- `rss_mb`, `threads`: peaks of the operator. `cpu_s`: its processor time.
- `limited`, `waiting`: objects of the attacker with the reason LimitReached, and those without any.
- `created`, `crashes`, `attacks`: what the attacker did.

The last line is one JSON object.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from confluent_kafka.admin import AdminClient

from fleet.apiserver import grant, install_crds, serve_bench
from fleet.tenants import (
    API_LIMITS,
    USERS,
    VICTIM,
    Attacker,
    Operator,
    await_topic,
    connect,
    count_reasons,
    create_space,
    run_attacker,
    run_operator,
)
from fleet.twin import install_twin, time_kafka, time_requests
from kappa_crds import VERSION
from kappa_operator.engine.cluster import ApiCluster
from lab.broker import Broker, free_ports

EVERY = 2.0


@dataclass
class Waits:
    """Seconds of each Topic, and of its twins."""

    topic: list[float] = field(default_factory=list)
    api: list[float] = field(default_factory=list)
    kafka: list[float] = field(default_factory=list)
    threads: int = 0

    async def add(self, admin: ApiCluster, team: ApiCluster, kafka: AdminClient, operator: Operator) -> None:
        """Measure one Topic and its twins at the same time."""
        name = f"w{len(self.topic)}"
        topic, api, kafka_s = await asyncio.gather(
            await_topic(team, operator, name),
            time_requests(admin, VERSION, VICTIM, name),
            time_kafka(kafka, f"twin-{name}"),
        )
        self.topic.append(topic)
        self.api.append(api)
        self.kafka.append(kafka_s)
        self.threads = max(self.threads, operator.count_threads())
        print(
            f"{time.monotonic():.0f}: {topic:.2f} s, API server {api:.2f} s, Kafka {kafka_s:.2f} s, {operator.measure_peak() / 1e6:.0f} MB",
            file=sys.stderr,
        )

    def list_shares(self) -> list[float]:
        """Return what is left of each Topic's delay without its twins."""
        return [
            max(0.0, topic - api - kafka)
            for topic, api, kafka in zip(self.topic, self.api, self.kafka, strict=True)
        ]


async def measure(folder: Path, url: str, count: int, seconds: float) -> dict[str, Any]:
    """Measure beside so many objects."""
    kubectl = await install_crds(folder, url)
    install_twin(kubectl)
    (port,), waits = free_ports(1), Waits()
    with Broker() as broker:
        kafka = AdminClient({"bootstrap.servers": broker.bootstrap})
        async with connect(folder, "admin") as admin, connect(folder, VICTIM) as team:
            await create_space(admin, VICTIM, broker.bootstrap)
            grant(kubectl)
            with (
                run_operator(folder, url, port) as operator,
                run_attacker(folder, port, count, broker.bootstrap) as attacker,
            ):
                while not attacker.is_prepared():
                    assert attacker.is_alive, attacker.log.read_text()[-3000:]
                    await asyncio.sleep(0.2)
                await await_topic(team, operator, "before")
                attacker.start()
                end = time.monotonic() + seconds
                while time.monotonic() < end:
                    await waits.add(admin, team, kafka, operator)
                    await asyncio.sleep(EVERY)
                return {"objects": count, **await summarise(admin, waits, operator, attacker)}


async def summarise(
    admin: ApiCluster, waits: Waits, operator: Operator, attacker: Attacker
) -> dict[str, Any]:
    """Return the figures."""
    reasons, pulse = await count_reasons(admin), operator.read_pulse()
    print(reasons, file=sys.stderr)
    seconds = {
        "topic_p50_s": statistics.median(waits.topic), "topic_max_s": max(waits.topic), "api_p50_s": statistics.median(waits.api),
        "api_max_s": max(waits.api), "kafka_max_s": max(waits.kafka), "operator_max_s": max(waits.list_shares()),
        "loop_p50_s": pulse["p50"], "loop_p99_s": pulse["p99"], "loop_max_s": pulse["max"], "cpu_s": pulse["cpu"],
    }  # fmt: skip
    return {
        "topics": len(waits.topic), **{name: round(value, 2) for name, value in seconds.items()},
        "rss_mb": round(operator.measure_peak() / 1e6, 1), "threads": waits.threads,
        "limited": reasons["LimitReached"], "waiting": reasons[""], **attacker.read(),
    }  # fmt: skip


def main() -> None:
    """Measure, and print the figures, the last line for programs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1,000 objects only")
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=180.0, help="how long to measure")
    parser.add_argument("--keep", type=Path, help="folder for the logs")
    options = parser.parse_args()
    count = 1000 if options.quick else options.objects
    with serve_bench(options.keep, *API_LIMITS, users=USERS) as (folder, url):
        print(json.dumps(asyncio.run(measure(folder, url, count, options.seconds))))


if __name__ == "__main__":
    main()
