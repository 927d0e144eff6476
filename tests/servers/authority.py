"""A private certificate authority in a folder."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

BEGAN = datetime(2020, 1, 1, tzinfo=UTC)
END = datetime(2021, 1, 1, tzinfo=UTC)
ENDED = "Jan  1 00:00:00 2021 GMT"
"""When what has expired did, as ssl prints it."""


@dataclass(frozen=True)
class Authority:
    """`ca.pem`, `ca.key`, and what was issued, by name."""

    folder: Path

    @property
    def ca(self) -> Path:
        """Return the file of its certificate."""
        return self.folder / "ca.pem"

    def issue(self, name: str, alt: str = "", *, expired: bool = False) -> tuple[Path, Path]:
        """Return a new certificate of `name`, also for the DNS name `alt`, and its key."""
        issuer = x509.load_pem_x509_certificate(self.ca.read_bytes()).subject
        key = load_pem_private_key((self.folder / "ca.key").read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return made(self.folder, name, alt=alt, by=(issuer, key), expired=expired)


def authority(folder: Path) -> Authority:
    """Return a new one."""
    made(folder, "ca")
    return Authority(folder)


def made(
    folder: Path,
    name: str,
    *,
    alt: str = "",
    by: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None = None,
    expired: bool = False,
) -> tuple[Path, Path]:
    """Write a certificate and its key; without `by` it is an authority of its own."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    issuer, signer = by or (subject, key)
    ends = END if expired else datetime.now(UTC) + timedelta(days=2)
    builder = x509.CertificateBuilder(
        issuer, subject, key.public_key(), x509.random_serial_number()
    )
    builder = builder.not_valid_before(BEGAN).not_valid_after(ends)
    builder = builder.add_extension(x509.BasicConstraints(by is None, None), critical=True)
    if alt:
        names = x509.SubjectAlternativeName([x509.DNSName(alt)])
        builder = builder.add_extension(names, critical=False)
    cert, private = folder / f"{name}.pem", folder / f"{name}.key"
    cert.write_bytes(builder.sign(signer, hashes.SHA256()).public_bytes(Encoding.PEM))
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return cert, private
