"""What is on the claim of the state store, as a pod sees it."""

import json

from e2e.place import Place

_LIST = "import os; print(*(os.path.join(d, f) for d, _, fs in os.walk('/state') for f in fs), sep='\\n')"


def list_claim(place: Place) -> list[str]:
    """Return the files on the claim of the state store, as a pod sees them."""
    security = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "look",
        "image": "kappa/operator:dev",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", _LIST],
        "securityContext": security,
        "volumeMounts": [{"name": "state", "mountPath": "/state"}],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "look"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [container],
            "volumes": [{"name": "state", "persistentVolumeClaim": {"claimName": "default-state"}}],
        },
    }
    place.apply(json.dumps(pod))
    place.kubectl("wait", "pod/look", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s")
    files = place.kubectl("logs", "look").splitlines()
    place.kubectl("delete", "pod", "look", "--now")
    return files
