"""Keys and certificates of the cluster: one authority, one key a component, one kubeconfig a client.

Elliptic-curve keys because they are made in milliseconds; the key that signs service-account tokens is RSA,
which every client library can verify.
"""

import base64
import json
import shutil
from pathlib import Path

from lab.network import API_PORT, KUBERNETES_IP, NODE, NODE_IP
from lab.paths import CONTEXT, KUBECONFIG, LAB, PKI, write_file
from lab.shell import run

API_NAMES = (
    "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,"
    f"DNS:kubernetes.default.svc.cluster.local,IP:127.0.0.1,IP:{KUBERNETES_IP},IP:{NODE_IP}"
)
# Certificate → subject; each is also a client of the API server under that user name and group.
SUBJECTS = {
    "apiserver": "/CN=kube-apiserver",
    "admin": "/O=system:masters/CN=kappa-lab-admin",
    "controller-manager": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
    "kubelet": f"/O=system:nodes/CN=system:node:{NODE}",
    "kube-proxy": "/CN=system:kube-proxy",
}
_NEW_KEY = ("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def make_authority(folder: Path, name: str) -> None:
    """Make `ca.key` and `ca.crt`."""
    output = ["-keyout", "ca.key", "-out", "ca.crt"]
    run([*_NEW_KEY, "-x509", "-days", "3650", "-subj", f"/CN={name}", *output], cwd=folder)


def make_certificate(folder: Path, name: str, subject: str, alternative_names: str = "") -> None:
    """Make `<name>.key` and `<name>.crt`, good for servers and clients, signed by the folder's authority."""
    run([*_NEW_KEY, "-subj", subject, "-keyout", f"{name}.key", "-out", f"{name}.csr"], cwd=folder)
    extensions = "extendedKeyUsage=serverAuth,clientAuth\n"
    if alternative_names:
        extensions += f"subjectAltName={alternative_names}\n"
    write_file(folder / f"{name}.ext", extensions)
    authority = ["-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "3650"]
    files = ["-in", f"{name}.csr", "-extfile", f"{name}.ext", "-out", f"{name}.crt"]
    run(["openssl", "x509", "-req", *files, *authority], cwd=folder)


def ensure() -> None:
    """Make everything once; the folder appears complete or not at all."""
    if not PKI.exists():
        part = LAB / ".pki.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True, mode=0o700)
        make_authority(part, "kappa-lab")
        for name, subject in SUBJECTS.items():
            node_names = f"DNS:{NODE},IP:{NODE_IP},IP:127.0.0.1"
            names = {"apiserver": API_NAMES, "kubelet": node_names}.get(name, "")
            make_certificate(part, name, subject, names)
        run(["openssl", "genrsa", "-out", "service-account.key", "2048"], cwd=part)
        run(
            ["openssl", "rsa", "-in", "service-account.key", "-pubout", "-out", "service-account.pub"],
            cwd=part,
        )
        part.rename(PKI)
    for name in SUBJECTS:
        write_file(kubeconfig(name), _kubeconfig_text(name), mode=0o600)


def kubeconfig(name: str) -> Path:
    """The kubeconfig of one client."""
    return KUBECONFIG if name == "admin" else LAB / "kubeconfig" / name


def _kubeconfig_text(name: str) -> str:
    def content(file: str) -> str:
        return base64.b64encode((PKI / file).read_bytes()).decode()

    cluster = {"server": f"https://127.0.0.1:{API_PORT}", "certificate-authority-data": content("ca.crt")}
    user = {"client-certificate-data": content(f"{name}.crt"), "client-key-data": content(f"{name}.key")}
    context = {"cluster": CONTEXT, "user": name}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": CONTEXT, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": CONTEXT, "context": context}],
        "current-context": CONTEXT,
    }
    return json.dumps(document, indent=1)
