"""Keys and certificates of ECDSA P-256, and when they are renewed.

A certificate is valid from one hour before its creation, so that a client whose clock is late accepts it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LATE_CLOCK = timedelta(hours=1)
AUTHORITY_LIFE = timedelta(days=3650)
LIFE = timedelta(days=90)
_NAME_LIMIT = 64
"""Characters of a common name."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, in PEM."""

    certificate: str
    key: str = field(repr=False)


def create_authority(name: str, now: datetime) -> KeyPair:
    """Return a new authority, which signs certificates of servers."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = _begin(subject, subject, key.public_key(), now, AUTHORITY_LIFE)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return _pair(builder.add_extension(usage, critical=True).sign(key, hashes.SHA256()), key)


def issue(authority: KeyPair, hosts: Sequence[str], now: datetime, *, for_clients: bool = False) -> KeyPair:
    """Return a certificate of a server for these hosts, and of a client where that is wanted, signed by the authority."""
    signer = serialization.load_pem_private_key(authority.key.encode(), None)
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        raise ValueError("the authority has no key of ECDSA")
    issuer = x509.load_pem_x509_certificate(authority.certificate.encode())
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _begin(_name(hosts[0]), issuer.subject, key.public_key(), now, LIFE)
    builder = _serve(builder, hosts, for_clients=for_clients).add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
    )
    return _pair(builder.sign(signer, hashes.SHA256()), key)


def create_self_signed(host: str, now: datetime) -> KeyPair:
    """Return a certificate of a server that its client knows in advance."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _begin(_name(host), _name(host), key.public_key(), now, LIFE)
    # By this a client distinguishes it from another one of the same host.
    own = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    builder = builder.add_extension(own, critical=False)
    return _pair(_serve(builder, (host,)).sign(key, hashes.SHA256()), key)


def is_due(certificate: str, now: datetime) -> bool:
    """Return whether a certificate is in the last third of its validity, or outside of it; raise ValueError if unreadable."""
    start, end = get_validity(certificate)
    return not start <= now < end - (end - start) / 3


def needs_renewal(certificate: str, now: datetime) -> bool:
    """Return whether a certificate is due or unreadable."""
    try:
        return is_due(certificate, now)
    except ValueError:
        return True


def is_valid(certificate: str, now: datetime) -> bool:
    """Return whether a certificate is valid now; raise ValueError if unreadable."""
    start, end = get_validity(certificate)
    return start <= now < end


@lru_cache(maxsize=8192)
def get_validity(certificate: str) -> tuple[datetime, datetime]:
    """Return the start and end of the validity; raise ValueError if unreadable."""
    found = x509.load_pem_x509_certificate(certificate.encode())
    return found.not_valid_before_utc, found.not_valid_after_utc


def get_hosts(certificate: str) -> frozenset[str]:
    """Return the hosts that a certificate is for; raise ValueError if unreadable."""
    found = x509.load_pem_x509_certificate(certificate.encode())
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(names.get_values_for_type(x509.DNSName))


def is_issued_by(certificate: str, authority: str) -> bool:
    """Return whether the authority signed the certificate; raise ValueError if one is unreadable."""
    found = x509.load_pem_x509_certificate(certificate.encode())
    try:
        found.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.encode()))
    except Exception:  # the library raises three kinds, which all mean no
        return False
    return True


def has_own_key(pair: KeyPair) -> bool:
    """Return whether the key is that of the certificate; raise ValueError if one is unreadable."""
    key = serialization.load_pem_private_key(pair.key.encode(), None)
    return bool(key.public_key() == x509.load_pem_x509_certificate(pair.certificate.encode()).public_key())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:_NAME_LIMIT])])


def _begin(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    start = now.replace(microsecond=0) - LATE_CLOCK
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(start).not_valid_after(start + life)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _serve(
    builder: x509.CertificateBuilder, hosts: Sequence[str], *, for_clients: bool = False
) -> x509.CertificateBuilder:
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
    clients = [ExtendedKeyUsageOID.CLIENT_AUTH] if for_clients else []
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, *clients])
    builder = builder.add_extension(names, critical=False).add_extension(usage, critical=False)
    return builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    encoding = serialization.Encoding.PEM
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyPair(certificate.public_bytes(encoding).decode(), secret.decode())
