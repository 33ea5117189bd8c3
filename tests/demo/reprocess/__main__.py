"""The command line of the demo of a reprocessing: `PYTHONPATH=tests:client/src python -m demo.reprocess`."""

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor

import platform_switch
from demo.reprocess import scene
from demo.reprocess.load import LiveLoad
from demo.reprocess.manifests import PIPELINE, RIGHT, TABLE, Example
from demo.reprocess.show import show_comparison, show_counts
from demo.steps import Steps
from kappa_crds.reprocessing import ReprocessingPhase
from lab import kafka
from lab.paths import BIN, KUBECONFIG, REPOSITORY


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="demo.reprocess", description="A bug in a pipeline, fixed while readers keep reading."
    )
    parser.add_argument("--keep", action="store_true", help="leave pipeline and topics in place")
    parser.add_argument("--remove", action="store_true", help="only remove what --keep left")
    parser.add_argument(
        "--months",
        type=int,
        choices=range(3, 13),
        default=4,
        metavar="N",
        help="flights of January to month N",
    )
    parser.add_argument("--no-install", action="store_true", help="take cluster and operator as they are")
    parser.add_argument(
        "--expect-wrong",
        action="store_true",
        help="expect the wrong version of the new outputs: the demo must report it and fail",
    )
    return parser


def _run(steps: Steps, arguments: argparse.Namespace, example: Example, bootstrap: str) -> int:
    with ThreadPoolExecutor(max_workers=1) as background:
        preparing = background.submit(scene.prepare, example, arguments.months)
        if not arguments.no_install:
            steps.prepare_platform()
        with steps.step("Clean start"):
            scene.clean(example, bootstrap)
        with steps.step(f"Namespace {example.namespace}: KafkaCluster, Topics, StateStore"):
            scene.set_up(example)
        data = preparing.result()
    with steps.step("Load", shows_progress=True):
        line = steps.open_line()
        live = scene.load_first(example, data, bootstrap, line.show)
        line.end(f"loaded {len(data.first):,} records; {len(data.live):,} follow meanwhile")
    with steps.step("Pipeline with the offset of winter for the whole year", shows_progress=True):
        line = steps.open_line()
        scene.run_wrong_version(example, line.show)
        line.end()
    live.start()
    readers = scene.open_readers(example, bootstrap)
    try:
        return _reprocess(steps, arguments, example, bootstrap, data, live, readers)
    finally:
        readers.end()
        live.stop()


def _reprocess(
    steps: Steps,
    arguments: argparse.Namespace,
    example: Example,
    bootstrap: str,
    data: scene.Data,
    live: LiveLoad,
    readers: scene.Readers,
) -> int:
    with steps.step(
        "Fix: the time zone of New York, computed over the whole log beside it", shows_progress=True
    ):
        line = steps.open_line()
        scene.apply_version(example, RIGHT)
        status = scene.await_phase(example, ReprocessingPhase.READY_TO_CUT, readers, line.show)
        line.end()
        show_comparison(steps.console, status)
    with steps.step("kappa reprocess cut", shows_progress=True):
        line = steps.open_line()
        scene.request(example, "cut")
        scene.await_phase(example, ReprocessingPhase.SOAKING, readers, line.show)
        line.end()
    with steps.step("The new outputs and a batch by DuckDB", shows_progress=True):
        line = steps.open_line()
        live.finish(left=scene.LAST)
        scene.await_read(example, readers, len(data.log) - scene.LAST, line.show)
        line.end()
        expected = data.wrong if arguments.expect_wrong else data.right
        found = scene.check_output(example, expected, ".r1", bootstrap)
        differences = show_counts(
            steps.console, f"{len(data.log) - scene.LAST:,} flights, new version", found
        )
    with steps.step("kappa reprocess rollback", shows_progress=True):
        line = steps.open_line()
        scene.request(example, "rollback")
        scene.await_phase(example, ReprocessingPhase.ROLLED_BACK, readers, line.show)
        live.finish()
        scene.await_read(example, readers, len(data.log), line.show)
        line.end()
        found = scene.check_output(example, data.wrong, "", bootstrap)
        differences += show_counts(
            steps.console, f"{len(data.log):,} flights, old version, which is back", found
        )
    readers.end()
    seen = f"{readers.of_stream.count:,} and {readers.of_table.count:,} records"
    return differences + show_counts(
        steps.console, f"Readers, {seen}", scene.check_readers(example, readers, data)
    )


def list_next_steps(namespace: str, *, kept: bool) -> list[str]:
    """Return what to try after the demo."""
    if kept:
        return [
            "The pipeline is left in place, with the bug. To look at it, and to fix it by hand:",
            f"  export KUBECONFIG={KUBECONFIG} PATH={BIN}:{REPOSITORY}/.venv/bin:$PATH",
            f"  kappa reprocess watch {PIPELINE} -n {namespace} --once",
            f"  kappa resolve {TABLE} -n {namespace}",
            "  docs/tutorials/reprocess.md              # the demo, step by step",
            "To remove it:",
            "  make demo-reprocess REMOVE=1",
        ]
    return [
        "Try next:",
        "  make demo-reprocess KEEP=1               # the same, and everything stays",
        "  docs/tutorials/reprocess.md              # the demo, step by step",
    ]


def main() -> int:
    """Run the demo: 0 if all is as it should be, 1 on any difference, 2 if it did not get that far."""
    arguments = _parser().parse_args()
    steps, example, bootstrap = Steps(), Example(), kafka.host_bootstrap()

    def play() -> int | None:
        with platform_switch.with_operator():
            return steps.play(
                lambda: _run(steps, arguments, example, bootstrap),
                lambda: scene.clean(example, bootstrap),
                lambda kept: list_next_steps(example.namespace, kept=kept),
                keep=arguments.keep,
                remove=arguments.remove,
            )

    agreement = "both versions equal DuckDB, and the readers saw each result once"
    return steps.judge(play, namespace=example.namespace, pipeline=PIPELINE, agreement=agreement)


if __name__ == "__main__":
    sys.exit(main())
