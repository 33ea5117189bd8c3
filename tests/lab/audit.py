"""The audit log of the API server: which requests the service accounts of pods sent, and which permission allowed each.

It has no bodies, so no secrets. Kubernetes' own controllers are left out, and so are the lab and its users. The log has a
bounded size: the oldest file is deleted when a new one begins.
"""

import json
from pathlib import Path

from lab.paths import LAB, write_file

FOLDER = LAB / "audit"
LOG = FOLDER / "audit.log"
_POLICY = FOLDER / "policy.json"
_MEGABYTES, _FILES = 50, 3
_RULES = [
    {"level": "None", "userGroups": ["system:serviceaccounts:kube-system"]},
    {"level": "Metadata", "userGroups": ["system:serviceaccounts"], "omitStages": ["RequestReceived"]},
    {"level": "None"},
]


def write_policy() -> list[str | Path]:
    """Write the policy, and return the flags of the API server."""
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": _RULES}
    write_file(_POLICY, json.dumps(policy))
    return [
        f"--audit-policy-file={_POLICY}",
        f"--audit-log-path={LOG}",
        f"--audit-log-maxsize={_MEGABYTES}",
        f"--audit-log-maxbackup={_FILES}",
    ]


def list_files() -> list[Path]:
    """Return the files of the log, the oldest one first; none where the API server is not the lab's own."""
    return sorted(FOLDER.glob("audit-*.log")) + ([LOG] if LOG.exists() else [])
