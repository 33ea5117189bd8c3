"""The command line of the demo of databases: `PYTHONPATH=tests python -m demo.shop`."""

import argparse
import random
import sys

import platform_switch
from demo import platform
from demo.shop import scene
from demo.shop.manifests import Example
from demo.shop.show import show_comparisons, show_proofs, show_work
from demo.shop.views import spoil_expected
from demo.steps import Steps
from lab import kafka
from lab.paths import BIN, KUBECONFIG, REPOSITORY

_IMAGE = "postgres"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="demo.shop", description="An online shop in PostgreSQL, as views that are proved."
    )
    parser.add_argument("--keep", action="store_true", help="leave database, source and pipelines in place")
    parser.add_argument("--remove", action="store_true", help="only remove what --keep left")
    parser.add_argument(
        "--seconds", type=float, default=60.0, metavar="N", help="how long the application writes"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=random.SystemRandom().randrange(1, 10_000),
        help="what the application does",
    )
    parser.add_argument(
        "--expect-wrong", action="store_true", help="spoil one expected row: the demo must report it and fail"
    )
    return parser


def _run(steps: Steps, arguments: argparse.Namespace, example: Example, bootstrap: str) -> int:
    steps.prepare_platform(_IMAGE)
    with steps.step("Clean start"):
        scene.clean(example, bootstrap)
    with steps.step(f"PostgreSQL in namespace {scene.NAMESPACE}"):
        shop = scene.open_shop()
    with steps.step(f"Namespace {example.namespace}: Kafka Connect, CDCSource, Pipeline"):
        scene.follow_shop(example, shop)
    with steps.step(f"Application, seed {arguments.seed}", shows_progress=True):
        line = steps.open_line()
        application = scene.run_application(example, shop, arguments.seconds, arguments.seed, line.show)
        line.end()
        show_work(steps.console, application)
        steps.console.print(platform.get_kappa(example.namespace), markup=False, end="", soft_wrap=True)
    with steps.step("Comparison of the views with the database", shows_progress=True):
        line = steps.open_line()
        comparisons = scene.await_equal(example, shop, bootstrap, line.show)
        line.end()
        if arguments.expect_wrong:
            comparisons = [spoil_expected(comparisons[0]), *comparisons[1:]]
        show_comparisons(steps.console, comparisons)
    with steps.step("Proof that the topics equal their tables"):
        show_proofs(steps.console, scene.prove_topics(example, shop, bootstrap))
    return sum(len(each.differences) for each in comparisons)


def list_next_steps(namespace: str, *, kept: bool) -> list[str]:
    """Return what to try after the demo."""
    if kept:
        return [
            "Database, source and pipelines are left in place. To look at them:",
            f"  export KUBECONFIG={KUBECONFIG} PATH={BIN}:{REPOSITORY}/.venv/bin:$PATH",
            f"  kubectl get kappa -n {namespace}",
            f"  kubectl exec -it -n {scene.NAMESPACE} {scene.SERVER.pod} -- psql -h /tmp -U postgres {scene.DATABASE}",
            "To remove them:",
            "  make demo-cdc REMOVE=1",
        ]
    return [
        "Try next:",
        "  make demo-cdc KEEP=1                     # the same, and everything stays",
        "  docs/tutorials/shop.md                   # the demo, step by step",
    ]


def main() -> int:
    """Run the demo: 0 if views and topics equal the database, 1 on any difference, 2 if it did not get that far."""
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

    agreement = "views and topics equal the database, row for row"
    return steps.judge(play, namespace=example.namespace, pipeline="shop", agreement=agreement)


if __name__ == "__main__":
    sys.exit(main())
