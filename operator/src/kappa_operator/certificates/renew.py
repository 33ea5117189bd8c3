"""The certificates of the operator's endpoints, as they are stored, and which change they need: pure.

Clients trust the bundle. A new authority is in the bundle for `SPREAD` before it signs anything, so that each client has the bundle
first; an earlier authority stays there while it is valid.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from kappa_operator.certificates.issue import (
    LATE_CLOCK,
    KeyPair,
    create_authority,
    get_hosts,
    get_validity,
    has_own_key,
    is_due,
    is_issued_by,
    is_valid,
    issue,
)

SPREAD = timedelta(hours=1)
_END = "-----END CERTIFICATE-----\n"


@dataclass(frozen=True, slots=True)
class Certificates:
    """The authority that signs, the authorities that clients trust, and the certificate that is served."""

    authority: KeyPair
    bundle: str
    serving: KeyPair


def renew(
    stored: Certificates | None, hosts: Sequence[str], now: datetime, *, for_clients: bool = False
) -> Certificates:
    """Return the certificates to store now: the stored ones where they need no change, or where they are unreadable new ones.

    With `for_clients` the certificate that is served is also that of clients.
    """
    try:
        return _create(hosts, now, for_clients) if stored is None else _renew(stored, hosts, now, for_clients)
    except ValueError:
        return _create(hosts, now, for_clients)


def _create(hosts: Sequence[str], now: datetime, for_clients: bool) -> Certificates:
    authority = create_authority(f"{hosts[0]} authority", now)
    serving = issue(authority, hosts, now, for_clients=for_clients)
    return Certificates(authority, authority.certificate, serving)


def _renew(stored: Certificates, hosts: Sequence[str], now: datetime, for_clients: bool) -> Certificates:
    if not has_own_key(stored.authority) or stored.authority.certificate not in stored.bundle:
        raise ValueError("key, authority and bundle are not those of each other")
    if is_due(stored.authority.certificate, now):
        trusted = [each for each in _split(stored.bundle) if is_valid(each, now)]
        created = create_authority(f"{hosts[0]} authority", now)
        stored = replace(stored, authority=created, bundle="".join([created.certificate, *trusted]))
    if not _needs_another(stored, hosts, now):
        return stored
    # Another version of the operator may serve with the same certificate, so its hosts stay.
    earlier = sorted(get_hosts(stored.serving.certificate) - set(hosts))
    serving = issue(stored.authority, (*hosts, *earlier), now, for_clients=for_clients)
    return replace(stored, serving=serving)


def _needs_another(stored: Certificates, hosts: Sequence[str], now: datetime) -> bool:
    serving = stored.serving.certificate
    trusted = [each for each in _split(stored.bundle) if is_valid(each, now)]
    is_trusted = any(is_issued_by(serving, each) for each in trusted)
    if not (is_trusted and is_valid(serving, now) and has_own_key(stored.serving)):
        return True
    if not _is_spread(stored, now):
        return False
    wrong_hosts = not set(hosts) <= get_hosts(serving)
    return wrong_hosts or is_due(serving, now) or not is_issued_by(serving, stored.authority.certificate)


def _is_spread(stored: Certificates, now: datetime) -> bool:
    start, _ = get_validity(stored.authority.certificate)
    return len(_split(stored.bundle)) == 1 or now >= start + LATE_CLOCK + SPREAD


def _split(bundle: str) -> list[str]:
    return [f"{part}{_END}" for part in bundle.split(_END) if part.strip()]
