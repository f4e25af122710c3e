"""The twin's own certificate authority, and the certificates it gives to servers and clients."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# TLS is checked on the wall clock, the cluster lives on virtual time: valid on either.
_NOT_BEFORE = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
_NOT_AFTER = datetime.datetime(2099, 12, 31, tzinfo=datetime.UTC)
_EXPIRED = datetime.datetime(2001, 1, 1, tzinfo=datetime.UTC)


class Authority:
    """A certificate authority that lives in memory. ``ca_pem`` is its certificate."""

    def __init__(self, name: str = "twin-ca") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        self._certificate = (
            _builder(self._name, self._name, self._key.public_key(), constraints)
            .add_extension(_key_usage(signs_certificates=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.ca_pem = _pem(self._certificate)

    @property
    def secret(self) -> bytes:
        """What service account tokens of this authority's clusters are signed with."""
        return _key_pem(self._key)

    def server(
        self, hosts: Sequence[str] = ("127.0.0.1", "localhost"), *, expired: bool = False
    ) -> tuple[bytes, bytes]:
        """Certificate and key (PEM) of a server known by these names and addresses.

        An expired one was good for the year 2000.
        """
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        end = _EXPIRED if expired else _NOT_AFTER
        return self._issue(name, ExtendedKeyUsageOID.SERVER_AUTH, names, end)

    def client(self, user: str, groups: Sequence[str] = ()) -> tuple[bytes, bytes]:
        """Certificate and key (PEM) of a user: CN is its name, each O a group."""
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        parts.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._issue(x509.Name(parts), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def server_context(self) -> ssl.SSLContext:
        """TLS for a server on loopback.

        Client certificates are asked for and not demanded: who comes without one gets the API's
        own 401 rather than a failed handshake.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _load(context, self.server())
        context.load_verify_locations(cadata=self.ca_pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        context.set_alpn_protocols(["http/1.1"])
        return context

    def renew(self, context: ssl.SSLContext, *, expired: bool = False) -> None:
        """Gives a server's context another certificate, for the connections from now on."""
        _load(context, self.server(expired=expired))

    def client_context(self, user: str = "", groups: Sequence[str] = ()) -> ssl.SSLContext:
        """TLS for a client that trusts this authority, with a certificate if ``user`` is given."""
        context = ssl.create_default_context(cadata=self.ca_pem.decode())
        if user:
            _load(context, self.client(user, groups))
        return context

    def _issue(
        self,
        subject: x509.Name,
        purpose: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None,
        end: datetime.datetime = _NOT_AFTER,
    ) -> tuple[bytes, bytes]:
        key = ec.generate_private_key(ec.SECP256R1())
        constraints = x509.BasicConstraints(ca=False, path_length=None)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            _builder(subject, self._name, key.public_key(), constraints, end)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(authority, critical=False)
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return _pem(builder.sign(self._key, hashes.SHA256())), _key_pem(key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    constraints: x509.BasicConstraints,
    end: datetime.datetime = _NOT_AFTER,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(end)
        .add_extension(constraints, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _load(context: ssl.SSLContext, pair: tuple[bytes, bytes]) -> None:
    # The ssl module reads a key from a file only.
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pair.pem")
        file.touch(mode=0o600)
        file.write_bytes(pair[0] + pair[1])
        context.load_cert_chain(file)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
