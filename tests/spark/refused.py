"""A session whose executors an API server refuses from the start, and what it has then; a process of its own, as it needs another master."""

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kappa_pipelines.driver.executors import find_refusal
from kappa_pipelines.driver.session import await_executors, create_session
from spark.revisions import build_revision, source, spark_conf

SPEC = {"sources": [source()], "sinks": [{"name": "out", "from": "flights", "kafka": {"topic": "out"}}]}
PERMITTED, REFUSED = 1, 5
"""Failures that do not end the driver, and more refusals than that."""
FORBIDDEN = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "reason": "Forbidden",
    "code": 403,
    "message": 'pods "x" is forbidden: exceeded quota: small, requested: pods=1, used: pods=1, limited: pods=1',
}


class ApiServer(BaseHTTPRequestHandler):
    """Has no pods, and a ResourceQuota without room for one."""

    refused = 0

    def do_GET(self) -> None:
        """List no pods."""
        self._answer(200, {"kind": "PodList", "apiVersion": "v1", "items": []})

    def do_POST(self) -> None:
        """Refuse a pod."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer(403, FORBIDDEN)
        type(self).refused += 1

    def _answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def main(folder: str) -> None:
    """Print what was seen as JSON, in the last line."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), ApiServer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    conf = {
        **spark_conf(),
        "spark.master": f"k8s://http://127.0.0.1:{server.server_port}",
        "spark.submit.deployMode": "client",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.instances": "1",
        "spark.executor.maxNumFailures": str(PERMITTED),
        "spark.kubernetes.container.image": "none",
        "spark.kubernetes.executor.disableConfigMap": "true",
        "spark.kubernetes.executor.enableApiWatcher": "false",
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    }
    revision = build_revision(SPEC, folder, "127.0.0.1:1", spark_conf=conf)
    spark = create_session(revision)
    found = await_executors(spark, revision, lambda: ApiServer.refused >= REFUSED, lambda _: None)
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc.sc()
    backend = context.schedulerBackend()
    field = backend.getClass().getDeclaredField("lifecycleManager")
    field.setAccessible(True)
    seen = {
        "refused": found == 0 and ApiServer.refused >= REFUSED,
        "why": find_refusal(spark),
        "old": jvm.kappa.start.ExecutorPods.findRefusal(-1),
        "failed": field.get(backend).getNumExecutorsFailed(),
        "stopped": context.isStopped(),
    }
    print(json.dumps(seen), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
