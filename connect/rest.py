"""The REST API of the worker in this pod, with the worker's own certificate.

Without arguments: exits with 0 where the worker is ready, a member of its group that answers. `rest.py PATH` prints the answer to GET.
"""

import os
import socket
import ssl
import sys

HOST_VARIABLE, FOLDER = "KAPPA_ADVERTISED_HOST", "/etc/kappa/rest"
ADDRESS, SECONDS = ("127.0.0.1", 8443), 8.0
HEALTH = "/health"


def fetch(folder: str, host: str, address: tuple[str, int], path: str) -> tuple[str, str]:
    """Return the first line and the body of the answer; raise OSError where there is none."""
    context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
    context.load_cert_chain(f"{folder}/tls.crt", f"{folder}/tls.key")
    held = bytearray()
    with (
        socket.create_connection(address, SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        connection.sendall(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        while piece := connection.recv(65536):
            held += piece
    head, _, body = held.decode(errors="replace").partition("\r\n\r\n")
    return head.partition("\r\n")[0], body


def main(path: str) -> int:
    """Return the exit code."""
    try:
        line, body = fetch(FOLDER, os.environ[HOST_VARIABLE], ADDRESS, path)
    except OSError as error:
        line, body = f"no answer: {type(error).__name__}", ""
    is_good = " 200" in line[:13]
    if path != HEALTH and is_good:
        sys.stdout.write(f"{body}\n")
    elif not is_good:
        sys.stderr.write(f"{line} {body}\n")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else HEALTH))
