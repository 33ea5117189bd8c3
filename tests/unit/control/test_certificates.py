"""The operator's own certificate: created, renewed before its end, and never without a client that trusts it."""

import asyncio
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web

from fakes.context import Clock
from fakes.permissions import Permission, PermittedCluster, expand, read_certificate_rules
from kappa_operator.certificates.issue import (
    create_authority,
    create_self_signed,
    get_hosts,
    get_validity,
    is_due,
    is_issued_by,
    is_valid,
    issue,
)
from kappa_operator.certificates.renew import Certificates, renew
from kappa_operator.certificates.upkeep import CertificateUpkeep, read_certificates, write_certificates
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import Conflict, NotFound, Refused
from kappa_operator.tls import serve_app
from lab.broker import free_ports

START = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = ("operator.kappa.svc", "admission.kappa.svc")
SECRET = ObjectRef("v1", "Secret", "kappa", "kappa-operator-tls")
WEBHOOK = "kappa.pipelines"
REGISTRATION = ObjectRef("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", WEBHOOK)
DAY = timedelta(days=1)


def issued(now: datetime = START) -> Certificates:
    return renew(None, HOSTS, now)


def trusts(certificates: Certificates, now: datetime) -> bool:
    """Return whether a client with the bundle accepts the certificate."""
    serving, end = certificates.serving.certificate, "-----END CERTIFICATE-----\n"
    authorities = [f"{part}{end}" for part in certificates.bundle.split(end) if part]
    return is_valid(serving, now) and any(
        is_issued_by(serving, each) and is_valid(each, now) for each in authorities
    )


def test_a_new_certificate_is_for_all_hosts_and_needs_no_change() -> None:
    first = issued()
    assert get_hosts(first.serving.certificate) == set(HOSTS)
    assert trusts(first, START)
    assert renew(first, HOSTS, START + 59 * DAY) is first


@pytest.mark.parametrize("days", [61, 89, 91, 365, -2], ids="{} days later".format)
def test_whatever_the_clock_shows_clients_trust_the_certificate(days: int) -> None:
    first, now = issued(), START + days * DAY
    later = renew(first, HOSTS, now)
    assert later.serving != first.serving
    assert trusts(later, now)
    assert not is_due(later.serving.certificate, now)


def test_renewal_keeps_the_authority_that_clients_trust() -> None:
    first = issued()
    later = renew(first, HOSTS, START + 61 * DAY)
    assert (later.authority, later.bundle) == (first.authority, first.bundle)


def test_a_new_authority_signs_only_after_clients_had_time_to_trust_it() -> None:
    first = issued()
    day = START + 2440 * DAY
    serving = renew(first, HOSTS, START + 2400 * DAY).serving
    old = replace(first, serving=serving)
    announced = renew(old, HOSTS, day)
    assert announced.serving == serving
    assert announced.authority != first.authority
    assert announced.bundle == announced.authority.certificate + first.bundle
    assert renew(announced, HOSTS, day + timedelta(minutes=59)) is announced
    later = renew(announced, HOSTS, day + timedelta(minutes=61))
    assert is_issued_by(later.serving.certificate, announced.authority.certificate)
    assert first.bundle in later.bundle
    assert trusts(later, day + timedelta(minutes=61))


def test_after_the_end_of_everything_there_is_a_new_authority_at_once() -> None:
    now = START + 4000 * DAY
    later = renew(issued(), HOSTS, now)
    assert trusts(later, now)
    assert later.bundle == later.authority.certificate


def test_an_earlier_version_with_fewer_hosts_does_not_take_hosts_away() -> None:
    first = issued()
    more = renew(first, (*HOSTS, "alerts.kappa.svc"), START)
    assert get_hosts(more.serving.certificate) == {*HOSTS, "alerts.kappa.svc"}
    assert renew(more, HOSTS, START) is more


@pytest.mark.parametrize(
    "broken",
    [
        replace(issued(), serving=replace(issued().serving, certificate="no PEM")),
        replace(issued(), serving=replace(issued().serving, key=create_authority("other", START).key)),
        replace(issued(), authority=replace(issued().authority, key="no PEM")),
        replace(issued(), bundle=""),
        replace(issued(), bundle=create_authority("other", START).certificate),
    ],
    ids=["no certificate", "another key", "no key", "no bundle", "another bundle"],
)  # fmt: skip
def test_what_cannot_be_served_is_replaced(broken: Certificates) -> None:
    later = renew(broken, HOSTS, START)
    assert later.serving != broken.serving
    assert trusts(later, START)


def test_a_certificate_of_a_driver_is_valid_for_a_while_and_for_late_clocks() -> None:
    certificate = create_self_signed("delays.flights", START).certificate
    start, end = get_validity(certificate)
    assert start < START < end
    assert get_hosts(certificate) == {"delays.flights"}


def build_cluster() -> PermittedCluster:
    cluster = PermittedCluster()
    cluster.permissions = expand(read_certificate_rules())
    cluster.put(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": SECRET.name, "namespace": SECRET.namespace},
        }
    )
    webhooks = [{"name": WEBHOOK, "clientConfig": {"service": {"name": "admission"}}}]
    cluster.put(
        {
            "apiVersion": REGISTRATION.api_version, "kind": REGISTRATION.kind,
            "metadata": {"name": WEBHOOK, "namespace": ""}, "webhooks": webhooks,
        }
    )  # fmt: skip
    return cluster


def build_upkeep(cluster: PermittedCluster, clock: Clock) -> CertificateUpkeep:
    return CertificateUpkeep(cluster, SECRET, HOSTS, webhook=WEBHOOK, now=clock)


def read(cluster: PermittedCluster) -> Certificates:
    found = read_certificates(cluster.read(SECRET) or {})
    assert found is not None
    return found


async def test_replicas_serve_the_same_certificate_and_the_webhook_trusts_it() -> None:
    cluster, clock = build_cluster(), Clock()
    one, other = build_upkeep(cluster, clock), build_upkeep(cluster, clock)
    await one.sync()
    first = read(cluster)
    await other.sync()
    assert read(cluster) == first
    body = cluster.read(REGISTRATION)
    assert body is not None
    ssl.create_default_context(cadata=first.bundle)
    assert body["webhooks"][0]["clientConfig"]["caBundle"]
    clock.advance(61 * DAY.total_seconds())
    await other.sync()
    assert read(cluster).serving != first.serving
    assert read(cluster).authority == first.authority


async def test_of_two_replicas_that_renew_at_once_one_is_refused_and_reads_the_other_ones() -> None:
    cluster, clock = build_cluster(), Clock()
    await build_upkeep(cluster, clock).sync()
    stale = cluster.read(SECRET)
    assert stale is not None
    clock.advance(61 * DAY.total_seconds())
    await build_upkeep(cluster, clock).sync()
    with pytest.raises(Conflict):
        await cluster.replace(stale)


async def test_without_the_secret_of_the_chart_the_error_names_it() -> None:
    cluster = build_cluster()
    cluster.remove(SECRET)
    with pytest.raises(NotFound, match="kappa-operator-tls"):
        await build_upkeep(cluster, Clock()).sync()


async def test_the_chart_grants_just_what_the_upkeep_needs() -> None:
    needed = expand(read_certificate_rules())
    assert Permission("", "secrets", "update") in needed
    for missing in needed:
        cluster = build_cluster()
        cluster.permissions = needed - {missing}
        with pytest.raises(Refused, match=missing.verb):
            await build_upkeep(cluster, Clock()).sync()


async def test_a_replaced_secret_is_served_without_a_restart_and_without_a_failed_request() -> None:
    cluster, now = build_cluster(), datetime.now(UTC)
    upkeep = CertificateUpkeep(cluster, SECRET, ("localhost",), webhook=WEBHOOK)
    await upkeep.sync()
    first = read(cluster)
    second = replace(first, serving=issue(first.authority, ("localhost",), now))
    (port,) = free_ports(1)
    server = await serve_app(web.Application(), port, upkeep.context)
    trusted = ssl.create_default_context(cadata=first.bundle)
    try:
        before = [await request(port, trusted) for _ in range(5)]
        cluster.patch(SECRET, data=write_certificates(second))
        await upkeep.sync()
        after = [await request(port, trusted) for _ in range(5)]
    finally:
        await server.cleanup()
    assert {*before} == {get_der(first)}
    assert {*after} == {get_der(second)}


async def request(port: int, trusted: ssl.SSLContext) -> bytes:
    """Send a request by a new connection; return the certificate of the server."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=trusted, server_hostname="localhost"
    )
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 404")
    certificate: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return certificate


def get_der(certificates: Certificates) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificates.serving.certificate)
