"""How long a team waits for its Topic beside a team that attacks the operator: `python tests/bench/tenants.py [--quick]`.

The attacker has 10,000 objects, Kafka clusters that are dead or hostile, drivers of which half attack who asks them, and drivers that
crash without end. The operator is a process that the kernel kills above 512 MiB, on a real API server and with a real Kafka broker.
The other team creates a Topic every few seconds, while the attack begins and afterwards.

- `topic_p50_s`, `topic_max_s`: seconds from creating a Topic to its condition Ready.
- `rss_mb`, `threads`: peaks of the operator.
- `limited`: objects of the attacker with the reason LimitReached.

The last line is one JSON object.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fleet.apiserver import grant, install_crds, serve_bench
from fleet.drivers import Node
from fleet.tenants import (
    VICTIM,
    HostileDrivers,
    await_topic,
    build_objects,
    count_reasons,
    create_objects,
    create_space,
    play_node,
    prepare_attack,
    run_operator,
    serve_brokers,
)
from kappa_operator.engine.cluster import ApiCluster
from lab.broker import Broker, free_ports

EVERY = 3.0


async def measure(folder: Path, url: str, count: int, seconds: float) -> dict[str, Any]:
    """Measure beside so many objects."""
    kubectl = await install_crds(folder, url)
    os.environ["KUBECONFIG"] = str(folder / "admin.kubeconfig")
    drivers, (port,), waits, threads = HostileDrivers(), free_ports(1), list[float](), 0
    with Broker() as broker:
        async with await ApiCluster.connect() as cluster, drivers.serve(port), serve_brokers() as addresses:
            await create_space(cluster, VICTIM, broker.bootstrap)
            grant(kubectl)
            await prepare_attack(cluster, broker.bootstrap)
            node = asyncio.create_task(play_node(Node(cluster, drivers), drivers))
            with run_operator(folder, url, port) as operator:
                await await_topic(cluster, operator, "before")
                attack = asyncio.create_task(create_objects(cluster, build_objects(count, addresses)))
                end = time.monotonic() + seconds
                while not attack.done() or time.monotonic() < end:
                    waits.append(await await_topic(cluster, operator, f"w{len(waits)}"))
                    threads = max(threads, operator.count_threads())
                    print(f"{waits[-1]:.2f} s, {operator.measure_peak() / 1e6:.0f} MB", file=sys.stderr)
                    await asyncio.sleep(EVERY)
                reasons, peak = await count_reasons(cluster), operator.measure_peak()
            await attack
            node.cancel()
    print(reasons, file=sys.stderr)
    return {
        "objects": count, "topics": len(waits), "topic_p50_s": round(statistics.median(waits), 2),
        "topic_max_s": round(max(waits), 2), "rss_mb": round(peak / 1e6, 1), "threads": threads, "limited": reasons["LimitReached"],
    }  # fmt: skip


def main() -> None:
    """Measure, and print the figures, the last line for programs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1,000 objects only")
    parser.add_argument("--objects", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long to measure at least")
    parser.add_argument("--keep", type=Path, help="folder for the logs")
    options = parser.parse_args()
    count = 1000 if options.quick else options.objects
    with serve_bench(options.keep) as (folder, url):
        print(json.dumps(asyncio.run(measure(folder, url, count, options.seconds))))


if __name__ == "__main__":
    main()
