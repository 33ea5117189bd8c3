"""The command line of the demo: `PYTHONPATH=tests python -m demo`."""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext

import platform_switch
from demo import platform, run
from demo.manifests import Example
from demo.steps import Steps
from demo.watch import Target, say_status
from lab import kafka
from lab.paths import BIN, KUBECONFIG, REPOSITORY


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="demo", description="A year of flights through the platform, proved."
    )
    parser.add_argument("--keep", action="store_true", help="leave pipeline and topics in place")
    parser.add_argument("--remove", action="store_true", help="only remove what --keep left")
    parser.add_argument(
        "--months", type=int, choices=range(1, 13), metavar="N", help="only January to month N"
    )
    parser.add_argument("--no-install", action="store_true", help="take cluster and operator as they are")
    parser.add_argument(
        "--expect-wrong", action="store_true", help="spoil one expected row: the demo must report it and fail"
    )
    return parser


def _show_data(steps: Steps, data: run.Data) -> None:
    log = data.log
    steps.console.print(
        f"{len(log):,} records: {len(log) - log.malformed:,} flights, {log.late:,} of them late,"
        f" and {log.malformed:,} malformed records; the watermark must allow"
        f" {data.displacement_seconds / 86_400:.1f} days"
    )


def _run(steps: Steps, arguments: argparse.Namespace, example: Example, bootstrap: str) -> int:
    line = steps.open_line()
    with ThreadPoolExecutor(max_workers=1) as background:
        preparing = background.submit(run.prepare, example, arguments.months)
        if not arguments.no_install:
            steps.prepare_platform()
        with steps.step("Clean start"):
            left = run.clean(example, bootstrap)
            if left:
                steps.console.print(f"deleted topics of a former run: {', '.join(left)}")
        with steps.step(f"Namespace {example.namespace}: KafkaCluster, Topics, StateStore"):
            run.set_up(example)
        data = preparing.result()
    with steps.step("Load", shows_progress=True):
        _show_data(steps, data)
        loaded = run.load_data(
            example,
            data,
            bootstrap,
            lambda done, rate: line.show(f"loaded {done:,} of {len(data.log):,} records · {rate:,.0f}/s"),
        )
        line.end()
        steps.console.print(
            f"loaded {loaded.total:,} records in {loaded.seconds:.1f} s ({loaded.rate:,.0f}/s)"
        )
    line = steps.open_line()
    with steps.step("Pipeline", shows_progress=True):
        status = run.process(example, data, loaded, bootstrap, line.show)
        line.end(say_status(status, Target(len(data.log), data.log.malformed)))
        steps.console.print(platform.get_kappa(example.namespace), markup=False, end="", soft_wrap=True)
    with steps.step("Comparison with DuckDB"):
        if arguments.expect_wrong:
            data = run.spoil_expected(data)
        outcome = run.compare(example, data, loaded, status, bootstrap)
        run.show(steps.console, data, loaded, outcome)
    return len(outcome.differences)


def list_next_steps(namespace: str, *, kept: bool) -> list[str]:
    """Return what to try after the demo."""
    setup = [f"  export KUBECONFIG={KUBECONFIG} PATH={BIN}:{REPOSITORY}/.venv/bin:$PATH"]
    if kept:
        return [
            "The pipeline is left in place. To look at it:", *setup,
            f"  kappa status -n {namespace}                 # health of all resources",
            f"  kappa top -n {namespace}                    # rates, lag, state",
            f"  kubectl describe pipeline -n {namespace}    # status and Events",
            f"  kubectl logs -n {namespace} --selector=kappa-platform.io/role=driver --tail=20",
            "To remove it:",
            "  make demo REMOVE=1                       # only the pipeline and its topics",
            "  make down                                # the whole cluster",
        ]  # fmt: skip
    return [
        "Try next:",
        "  make demo KEEP=1                         # the same, and the pipeline stays",
        "  .venv/bin/kappa explain pipelines/examples/flights/pipeline.yaml",
        "  docs/tutorials/flights.md                # the demo, step by step",
        "  make down                                # removes the cluster",
    ]


def main() -> int:
    """Run the demo: 0 if pipeline and DuckDB agree in everything, 1 on any difference, 2 if it did not get that far."""
    arguments = _parser().parse_args()
    steps, example, bootstrap = Steps(), Example(), kafka.host_bootstrap()
    turn: AbstractContextManager[None] = (
        nullcontext() if arguments.no_install else platform_switch.with_operator()
    )

    def play() -> int | None:
        with turn:
            return steps.play(
                lambda: _run(steps, arguments, example, bootstrap),
                lambda: run.clean(example, bootstrap),
                lambda kept: list_next_steps(example.namespace, kept=kept),
                keep=arguments.keep,
                remove=arguments.remove,
            )

    agreement = "pipeline and DuckDB agree in every key"
    return steps.judge(play, namespace=example.namespace, pipeline=example.pipeline, agreement=agreement)


if __name__ == "__main__":
    sys.exit(main())
