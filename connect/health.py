"""The readiness of a worker of Kafka Connect: exits with 0 where it answers, as a member of its group, with its own certificate."""

import os
import socket
import ssl
import sys

PORT, SECONDS = 8443, 8.0
FOLDER = "/etc/kappa/rest"


def check(folder: str, host: str, address: tuple[str, int]) -> str:
    """Return the first line of the answer; raise OSError where there is none."""
    context = ssl.create_default_context(cafile=f"{folder}/ca.crt")
    context.load_cert_chain(f"{folder}/tls.crt", f"{folder}/tls.key")
    with (
        socket.create_connection(address, SECONDS) as plain,
        context.wrap_socket(plain, server_hostname=host) as connection,
    ):
        connection.sendall(f"GET /health HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
        return connection.recv(64).decode(errors="replace").partition("\r\n")[0]


def main() -> int:
    """Return the exit code."""
    try:
        answer = check(FOLDER, os.environ["KAPPA_ADVERTISED_HOST"], ("127.0.0.1", PORT))
    except OSError as error:
        answer = f"no answer: {type(error).__name__}"
    if " 200" in answer[:13]:
        return 0
    sys.stderr.write(f"{answer}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
