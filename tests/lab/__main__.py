"""The command line of the lab: `PYTHONPATH=tests python -m lab <command>`."""

import argparse
import sys
from pathlib import Path

from lab import cluster, connect_cluster, containerd, debian, images, kind, spark_home
from lab.errors import LabError
from lab.paths import BIN, KUBECONFIG
from lab.progress import report


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="lab", description="A local Kubernetes with Kafka, for tests.")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="make the cluster run; run it again after anything")
    up.add_argument("--brokers", type=int, choices=(1, 3), default=1, help="Kafka brokers (default 1)")
    down = commands.add_parser("down", help="take the cluster and its data away; the cache stays")
    down.add_argument("--images", action="store_true", help="forget the imported images too")
    commands.add_parser("status", help="show what runs")
    build = commands.add_parser("images", help="build and import the images that changed")
    build.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=", ".join(i.name for i in (*images.IMAGES, *images.ON_DEMAND)),
    )
    commands.add_parser("kubeconfig", help="print the path of the administrator's kubeconfig")
    load = commands.add_parser("load", help="import an image archive")
    load.add_argument("archive", type=Path)
    commands.add_parser("tools", help="only get the programs")
    commands.add_parser(
        "classes", help="record the classes of a Kafka Connect worker, which tests start from"
    )
    commands.add_parser("spark", help="make the Spark that JVMs of tests start from, and print its folder")
    packages = commands.add_parser("packages", help="install packages of the distribution that are missing")
    packages.add_argument("names", nargs="+", metavar="NAME", choices=sorted(debian.PACKAGES))
    return parser


def _run_kind(arguments: argparse.Namespace) -> int:
    match arguments.command:
        case "up":
            kind.up(arguments.brokers)
        case "down":
            kind.down()
        case "status":
            return 0 if kind.status() else 1
        case "images":
            kind.ensure_images(arguments.names)
        case "load":
            kind.load(arguments.archive)
    return 0


def _run_bare(arguments: argparse.Namespace) -> int:
    if arguments.command == "status":
        return 0 if cluster.status() else 1
    with cluster.lock():
        match arguments.command:
            case "up":
                cluster.up(arguments.brokers)
            case "down":
                cluster.down(with_images=arguments.images)
            case "images":
                cluster.require_up()
                images.ensure(arguments.names)
            case "load":
                cluster.require_up()
                print(containerd.import_archive(arguments.archive.absolute()), end="")
            case "classes":
                connect_cluster.record_classes()
            case "tools":
                cluster.prepare()
                report(f"programs are in {BIN}")
    return 0


def main() -> int:
    """Run one command; 1 and a message on failure."""
    arguments = _parser().parse_args()
    if arguments.command == "kubeconfig":
        print(KUBECONFIG)
        return 0
    try:
        if arguments.command == "packages":
            for name in debian.install_missing(arguments.names):
                report(f"installed {name}")
            return 0
        if arguments.command == "spark":
            print(spark_home.ensure())
            return 0
        run = _run_kind if cluster.is_docker_there() else _run_bare
        return run(arguments)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
